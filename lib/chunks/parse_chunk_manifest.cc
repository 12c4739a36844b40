// Reads the manifest of a set. It is untrusted, and decides which bytes end up in which file. Frames and
// members are read one by one, so that a long manifest needs no more memory than its content.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/json_stream.h"
#include "base/size.h"
#include "chunks/chunk_manifest.h"
#include "chunks/frame.h"

namespace planesmith::chunks {
namespace {

constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 62;

MemberType read_type(Fields& fields) {
  const std::string text = fields.text("type");
  for (const MemberType type :
       {MemberType::file, MemberType::directory, MemberType::symlink, MemberType::hardlink})
    if (text == name(type)) return type;
  fields.refuse("is neither file, directory, symlink nor hardlink");
}

std::vector<Extent> read_extents(Fields& fields, std::uint64_t size) {
  std::vector<Extent> extents;
  if (fields.find("extents") == nullptr) {
    append_extent(extents, 0, size);
    return extents;
  }
  for (const Json& extent : fields.list("extents")) {
    if (!extent.is_array() || extent.size() != 2 || !extent[0].is_number_unsigned() ||
        !extent[1].is_number_unsigned())
      fields.refuse("has extents that are not pairs of offset and size");
    append_extent(extents, extent[0], extent[1]);
  }
  return extents;
}

Member read_member(const Json& json, const std::string& path, std::size_t position) {
  std::string where = fmt::format("member {}", position);
  if (json.is_object() && json.contains("path") && json["path"].is_string())
    where = fmt::format("member '{}'", json["path"].get<std::string>());
  Fields fields(json, path, where);
  Member member;
  member.path = fields.text("path");
  if (!is_inner_path(member.path))
    fields.refuse("has a name that does not stay below the directory it is unpacked in");
  member.type = read_type(fields);
  member.mode = static_cast<unsigned>(fields.number("mode", 0, 07777));
  member.offset = fields.number("offset", 0, kMaxOffset);
  member.data_offset = fields.number("data_offset", 0, kMaxOffset);
  if (member.type == MemberType::symlink || member.type == MemberType::hardlink) {
    member.target = fields.text("target");
    if (member.target.empty() || member.target.find('\0') != std::string::npos)
      fields.refuse("has an impossible link target");
  }
  if (member.type == MemberType::file) {
    member.size = fields.number("size", 0, kMaxOffset);
    member.extents = read_extents(fields, member.size);
    member.blocks = fields.digests("blocks");
    if (member.blocks.size() != member.block_count() || fields.digest("xxh3") != combine(member.blocks))
      fields.refuse("has digests that do not belong together");
  }
  fields.done();
  return member;
}

void check_members(const std::vector<Member>& members, const Fields& fields) {
  std::set<std::string_view> files;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    if (i != 0 && !path_less(members[i - 1].path, member.path))
      fields.refuse(fmt::format("has its members out of order at '{}'", member.path));
    if (member.type == MemberType::file) files.insert(member.path);
    if (member.type == MemberType::hardlink && !files.contains(member.target))
      fields.refuse(fmt::format("has '{}' as a hard link to '{}', which is not a file before it", member.path,
                                member.target));
  }
}

void check_frames(const ChunkManifest& m, const Fields& fields) {
  const auto require = [&](bool fine, const char* what) {
    if (!fine) fields.refuse(what);
  };
  require(m.frame_size >= kMinFrameSize && m.frame_size <= kMaxFrameSize, "has a frame size out of bounds");
  require(m.part_content == 0 || m.part_content >= m.frame_size, "has parts that hold less than a frame");
  if (m.frames.size() != m.grid().frames())
    fields.refuse(fmt::format("has {} frames; a content of {} bytes makes {}", m.frames.size(),
                              m.layout.size(), m.grid().frames()));
  require(!m.parts.empty(), "has no parts");
  std::size_t part = 0, f = 0;
  std::uint64_t at = 0;
  const auto require_of_frame = [&](bool fine, const char* what) {
    if (!fine)
      fields.refuse(fmt::format("{}: frame {} (part {}, offset {}, {} bytes)", what, f, m.frames[f].part,
                                m.frames[f].offset, m.frames[f].size));
  };
  for (; f < m.frames.size(); ++f) {
    const FrameEntry& frame = m.frames[f];
    if (frame.part != part) {
      require_of_frame(frame.part == part + 1 && at == m.parts[part].size,
                       "has frames that do not fill the parts");
      part = frame.part;
      at = 0;
    }
    require_of_frame(m.part_content == 0 || part == f / m.grid().frames_in_part(),
                     "has a frame in the wrong part");
    require_of_frame(part < m.parts.size() && frame.offset == at, "has frames that do not follow each other");
    require_of_frame(frame.size != 0 && frame.size <= frame_bound(m.grid().size(f)),
                     "has a frame whose size is out of bounds");
    at += frame.size;
  }
  require(part + 1 == m.parts.size() && at == m.parts.back().size, "has frames that do not fill the parts");
  const std::size_t suffix = m.parts[0].path.find_last_of('.');
  for (std::size_t p = 0; p < m.parts.size(); ++p)
    require(m.parts[p].path == part_name(m.name, p, m.parts[0].path.size() - suffix - 1),
            "has parts that are not named NAME.tar.zst.part.NNN");
}

FrameEntry read_frame(const Json& json, const std::string& path, std::size_t position) {
  Fields fields(json, path, fmt::format("frame {}", position));
  const FrameEntry frame{.part = fields.number("part", 0, kMaxOffset),
                         .offset = fields.number("offset", 0, kMaxOffset),
                         .size = fields.number("size", 1, kMaxOffset),
                         .xxh3 = fields.digest("xxh3")};
  fields.done();
  return frame;
}

// The two long lists, as far as they have been read.
struct Lists {
  std::vector<FrameEntry> frames;
  std::vector<Member> members;
};

constexpr std::uint64_t kPiece = 1 << 20;
constexpr std::string_view kAfterDigest = "\n}\n";
std::size_t end_size() {
  return digest_line("").size() + kAfterDigest.size();
}
// Compares the manifest's digest of its own text, if it has one, with the text: `end` holds its last
// end_size() bytes, `before` is the digest of the bytes before them.
void check_own_digest(const Json& document, std::string_view end, const Xxh3& before,
                      const std::string& path) {
  if (!document.is_object() || !document.contains("digest")) return;
  if (end != fmt::format(",\n \"digest\": \"{}\"{}", before.hex(), kAfterDigest))
    throw Error(path,
                "is not a usable manifest: it was changed after it was written (its own digest differs)");
}

// Makes the manifest from the lists and the rest of the document, in which the lists are empty.
ChunkManifest assemble(Json document, Lists lists, const std::string& path) {
  if (document.is_object()) document.erase("digest");  // of the text, which was checked
  Manifest manifest = parse_manifest(compact(document), path);
  if (manifest.kind != ManifestKind::chunks)
    throw Error(path, fmt::format("is a manifest of kind '{}'; one of kind 'chunks' was expected",
                                  name(manifest.kind)));
  Fields fields(manifest.chunks, path, "\"chunks\"");
  for (const char* list : {"members", "frames"})
    if (!fields.list(list).empty())
      fields.refuse(fmt::format("has a \"{}\" that is not a list of objects", list));
  check_members(lists.members, fields);
  const auto layout = [&] {
    try {
      return Layout(std::move(lists.members), fields.number("stream_size", kTarEnd, kMaxOffset));
    } catch (const Error& error) {
      fields.refuse(fmt::format("contradicts itself: {}{}{}", error.path(), error.path().empty() ? "" : ": ",
                                error.reason()));
    }
  };
  ChunkManifest m{.tool = manifest.tool,
                  .zstd = fields.text("zstd"),
                  .tar = fields.find("tar") == nullptr ? "" : fields.text("tar"),
                  .name = fields.text("name"),
                  .level = static_cast<int>(fields.number("level", 0, kMaxLevel)),
                  .frame_size = fields.number("frame_size", kMinFrameSize, kMaxFrameSize),
                  .part_size = fields.number("part_size", 1, kMaxOffset),
                  .part_content = fields.find("part_content") == nullptr
                                      ? 0
                                      : fields.number("part_content", kMinFrameSize, kMaxOffset),
                  .parts = std::move(manifest.files),
                  .frames = std::move(lists.frames),
                  .layout = layout()};
  fields.done();
  if (!is_inner_path(m.name) || m.name.find('/') != m.name.npos)
    fields.refuse("has a name that is not a file name");
  check_frames(m, fields);
  return m;
}

// Builds the document without the items of the two lists, which are converted one by one.
class ManifestVisitor : public JsonVisitor {
 public:
  ManifestVisitor(std::string path, std::uint64_t memory) : path_(std::move(path)), memory_(memory) {}

  const Json& document() const { return document_; }
  ChunkManifest take() { return assemble(std::move(document_), std::move(lists_), path_); }

  void open(char bracket) override {
    Json* const place = put(bracket == '{' ? Json::object() : Json::array(), kNode);
    open_.push_back(place);
  }
  void close() override {
    open_.pop_back();
    if (depth() != kListDepth || open_.empty() || !open_.back()->is_array()) return;
    const bool frames = is_list("frames"), members = is_list("members");
    if (!frames && !members) return;
    const Json item = std::move(open_.back()->back());
    open_.back()->clear();
    if (frames) lists_.frames.push_back(read_frame(item, path_, lists_.frames.size()));
    if (members) lists_.members.push_back(read_member(item, path_, lists_.members.size()));
    used_ = used_before_item_ + sizeof(FrameEntry);
    if (members) {
      const Member& member = lists_.members.back();
      used_ += 2 * sizeof(Member) + member.path.size() + member.target.size() +
               member.extents.size() * sizeof(Extent) + member.blocks.size() * sizeof(Xxh3);
    }
  }
  void key(std::string& name) override {
    if (open_.back()->contains(name)) throw error(fmt::format("the key \"{}\" is there twice", name));
    keys_.resize(depth());
    keys_.back() = std::move(name);
  }
  void text(std::string& value) override {
    const std::uint64_t size = kNode + 3 * value.size();
    put(Json(std::move(value)), size);
  }
  void number(std::uint64_t value) override { put(Json(value), kNode); }
  void other(std::string_view kind) override {
    throw error(fmt::format("holds {}, which no manifest does", kind));
  }

 private:
  // {"chunks": {"frames": [ item: three containers are open around it.
  static constexpr std::size_t kListDepth = 3;
  static constexpr std::uint64_t kNode = 192;  // about the bytes that a value of the document takes

  bool is_list(std::string_view key) const {
    return keys_.size() >= 2 && keys_[0] == "chunks" && keys_[1] == key;
  }

  Json* put(Json value, std::uint64_t size) {
    if (depth() == kListDepth) used_before_item_ = used_;
    used_ += size;
    if (used_ > memory_)
      throw error(
          fmt::format("needs more memory than it may have ({}); give more --memory", exact_size(memory_)));
    if (open_.empty()) {
      document_ = std::move(value);
      return &document_;
    }
    Json& around = *open_.back();
    if (around.is_array()) return &around.emplace_back(std::move(value));
    return &(around[keys_.back()] = std::move(value));
  }

  const std::string path_;
  const std::uint64_t memory_;
  std::uint64_t used_ = 0, used_before_item_ = 0;
  Json document_;
  Lists lists_;
  std::vector<Json*> open_;        // containers around the next value
  std::vector<std::string> keys_;  // of the objects among them
};

// Whether a document is a manifest of chunks; keeps nothing of it.
class KindVisitor : public JsonVisitor {
 public:
  bool is_chunks = false;
  void open(char) override {}
  void close() override {}
  void key(std::string& name) override { at_kind_ = depth() == 1 && name == "kind"; }
  void text(std::string& value) override {
    is_chunks = is_chunks || (at_kind_ && depth() == 1 && value == "chunks");
  }
  void number(std::uint64_t) override {}
  void other(std::string_view) override {}

 private:
  bool at_kind_ = false;
};

}  // namespace

std::vector<FrameEntry> frames_from_json(Fields& fields, const std::string& path) {
  std::vector<FrameEntry> frames;
  for (const Json& json : fields.list("frames")) frames.push_back(read_frame(json, path, frames.size()));
  return frames;
}

ChunkManifest read_chunk_manifest(const Context& context, const File& file) {
  ManifestVisitor visitor(file.path(), context.memory / 2);
  visit_json(file, 0, file.size(), visitor);
  std::string end(std::min<std::uint64_t>(file.size(), end_size()), ' ');
  const std::uint64_t body = file.size() - end.size();
  Xxh3Stream before;
  std::vector<std::uint8_t> piece;
  for (std::uint64_t at = 0; at < body; at += piece.size()) {
    context.check_stop();
    piece.resize(std::min<std::uint64_t>(kPiece, body - at));
    file.read(piece, at);
    before.update(piece);
  }
  file.read({reinterpret_cast<std::uint8_t*>(end.data()), end.size()}, body);
  check_own_digest(visitor.document(), end, before.finish(), file.path());
  return visitor.take();
}

ChunkManifest read_chunk_manifest(const Context& context, const std::string& path) {
  return read_chunk_manifest(context, File::open_read(context.os, path));
}

bool is_chunk_manifest(const Context& context, const std::string& path) {
  try {
    const File file = File::open_read(context.os, path);
    KindVisitor visitor;
    visit_json(file, 0, file.size(), visitor);
    return visitor.is_chunks;
  } catch (const Error&) {
    context.check_stop();
    return false;
  }
}

}  // namespace planesmith::chunks
