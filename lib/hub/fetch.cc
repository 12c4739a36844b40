#include "hub/fetch.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/budget.h"
#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "base/stream.h"
#include "base/text.h"
#include "chunks/chunk_names.h"
#include "chunks/frame_reader.h"
#include "chunks/member_filter.h"
#include "chunks/unpack.h"
#include "hub/archive_record.h"
#include "hub/content_check.h"
#include "hub/download.h"
#include "hub/hub_frames.h"
#include "hub/in_order.h"
#include "hub/next_step.h"
#include "hub/remote_set.h"
#include "hub/source.h"

namespace planesmith::hub {
namespace {

std::string in_directory(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

RemoteFile remote_file(const std::string& directory, const FileEntry& entry, std::vector<BlockRange> blocks) {
  return {.path = in_directory(directory, entry.path),
          .size = entry.size,
          .sha256 = entry.sha256,
          .xxh3 = entry.xxh3,
          .blocks = std::move(blocks)};
}

// The contents of an unnamed temporary file.
std::string contents_of(const File& file, std::uint64_t most) {
  const std::uint64_t size = file.size();
  if (size > most)
    throw Error(fmt::format("the manifest has {}; --memory allows {}", exact_size(size), exact_size(most)));
  std::string text(size, '\0');
  file.read({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, 0);
  return text;
}

std::string sha256_of(const File& file) {
  Sha256 digest;
  std::vector<std::uint8_t> buffer(kPiece);
  for (std::uint64_t at = 0; at < file.size(); at += kPiece)
    digest.update(Bytes(buffer).first(file.read_some(buffer, at)));
  return hex(digest.finish());
}

// The bytes of parts, one after the other. Compares each part with its digest before the next one begins, and
// the last one before it returns the end.
class CheckedParts {
 public:
  CheckedParts(const Source& source, const std::vector<RemoteFile>& parts, const RangeOptions& options,
               const Context& context)
      : parts_(parts), bytes_(source, rests(parts), options, context) {
    check_.emplace(parts.front());
  }

  std::size_t pull(Bytes to) {
    while (left_.empty()) {
      if (index_ == parts_.size()) return 0;
      left_ = bytes_.next(index_);
      check_->update(left_);
      if (!left_.empty()) break;
      if (const std::string wrong = check_->finish(); !wrong.empty())
        throw Error(
            ErrorCode::difference, parts_[index_].path,
            fmt::format("is not what is listed: {}; no file of the set was put in place. Run the same "
                        "command again, or use --parts DIR, which fetches wrong parts again by itself",
                        wrong));
      if (++index_ < parts_.size()) check_.emplace(parts_[index_]);
    }
    const std::size_t n = std::min(to.size(), left_.size());
    memcpy(to.data(), left_.data(), n);
    left_ = left_.subspan(n);
    return n;
  }

 private:
  static std::vector<Rest> rests(const std::vector<RemoteFile>& parts) {
    std::vector<Rest> out;
    for (const RemoteFile& part : parts) out.push_back({.file = part, .begin = 0});
    return out;
  }
  const std::vector<RemoteFile>& parts_;
  InOrder bytes_;
  std::optional<ContentCheck> check_;
  std::size_t index_ = 0;
  ConstBytes left_{};
};

std::vector<chunks::ByteSource::Part> parts_of(const RemoteSet& set) {
  std::vector<chunks::ByteSource::Part> parts;
  std::uint64_t begin = 0;
  for (const RemoteFile& part : set.parts) {
    parts.push_back({part.path, begin});
    begin += part.size;
  }
  return parts;
}

class Fetcher {
 public:
  Fetcher(const FetchOptions& options, const Context& context)
      : options_(options), context_(context), source_(Source::parse(options.source, context.os)) {
    result_.places = {options.out};
  }

  FetchResult run() {
    const Choice choice = find();
    if (const auto* const set = std::get_if<RemoteSet>(&choice)) {
      result_.set = set->path();
      if (set->manifest)
        fetch_frames(*set);
      else
        fetch_archive(*set);
    } else {
      fetch_tree(std::get<std::vector<RemoteFile>>(choice));
    }
    if (!options_.dry_run) result_.next = next_step(result_.places, context_);
    return std::move(result_);
  }

 private:
  Choice find();
  Choice find_on_server();
  chunks::ChunkManifest read_manifest_of(const RemoteSet& set);
  void compare_with_listing(const RemoteSet& set, const chunks::ChunkManifest& manifest) const;
  void fetch_frames(const RemoteSet& set);
  void fetch_archive(const RemoteSet& set);
  void fetch_tree(const std::vector<RemoteFile>& files);
  void fetch_parts(const RemoteSet& set, const std::vector<RemoteFile>& files,
                   const std::optional<chunks::ChunkManifest>& manifest);
  void take(const chunks::UnpackResult& unpacked);
  void name_places(const std::set<std::string>& tops);

  // Half of the memory is for data in flight, half for unpacking.
  std::uint64_t half() const { return context_.memory / 2; }
  Context halved() const {
    Context context = context_;
    context.memory = context_.memory - half();
    return context;
  }
  RangeOptions ranges() const { return {.connections = options_.connections, .memory = half()}; }
  chunks::UnpackOptions unpack_options() const {
    return {.out = options_.out,
            .include = options_.include,
            .exclude = options_.exclude,
            .force = options_.force,
            .check_space = options_.check_space,
            .dry_run = options_.dry_run};
  }

  const FetchOptions& options_;
  const Context& context_;
  const Source source_;
  FetchResult result_;
  chunks::UnpackResult unpacked_;
  std::optional<File> manifest_;  // of the set; on a web server it was read to find the set
};

Choice Fetcher::find() {
  if (!source_.lists_files()) return find_on_server();
  return choose(source_.list(context_), options_.name, source_.shown());
}

// A web server does not list its files, so this tries the names that a manifest can have.
Choice Fetcher::find_on_server() {
  const std::size_t slash = options_.name.rfind('/');
  const std::string directory = slash == std::string::npos ? "" : options_.name.substr(0, slash);
  const std::string name = slash == std::string::npos ? options_.name : options_.name.substr(slash + 1);
  const std::vector<std::string> candidates =
      name.empty() ? std::vector<std::string>{"manifest.json"}
                   : std::vector{chunks::manifest_name(name), chunks::old_manifest_name(name)};
  for (const std::string& candidate : candidates) {
    const std::string path = in_directory(directory, candidate);
    manifest_ = source_.find(path, kMostManifestBytes, context_);
    if (!manifest_) continue;
    if (!name.empty())
      return RemoteSet{.directory = directory,
                       .name = name,
                       .manifest = RemoteFile{.path = path, .size = manifest_->size()}};
    const std::string text = contents_of(*manifest_, manifest_text_limit(context_.memory));
    const Manifest manifest = parse_manifest(text, path, context_.memory);
    if (manifest.kind == ManifestKind::chunks)
      throw Error(ErrorCode::usage, path, "is the manifest of a set; give the set's name");
    std::vector<RemoteFile> files;
    for (const FileEntry& entry : manifest.files) {
      if (entry.link_target)
        throw Error(path, fmt::format("lists '{}' as a link; those cannot be fetched", entry.path));
      files.push_back(remote_file("", entry, block_ranges(manifest, entry)));
    }
    for (const DerivedFile& file : derived_files(manifest))
      files.push_back({.path = file.path, .size = file.content.size(), .sha256 = sha256_hex(file.content)});
    files.push_back({.path = path, .size = text.size(), .sha256 = sha256_hex(text)});
    return files;
  }
  throw Error(source_.shown(),
              name.empty()
                  ? "has no manifest.json, and a web server does not list its files; give the name of a set"
                  : fmt::format("has neither {} nor {}, and a web server does not list its files",
                                candidates[0], candidates[1]));
}

chunks::ChunkManifest Fetcher::read_manifest_of(const RemoteSet& set) {
  if (!manifest_) manifest_ = source_.read(*set.manifest, kMostManifestBytes, context_);
  try {
    return chunks::read_chunk_manifest(context_, *manifest_);
  } catch (const Error& error) {  // of the unnamed temporary file
    Error named(error.code(), set.manifest->path, error.reason());
    if (error.offset()) named.at(*error.offset());
    throw named;
  }
}

// Finds a set that was replaced in part before anything is fetched.
void Fetcher::compare_with_listing(const RemoteSet& set, const chunks::ChunkManifest& manifest) const {
  if (manifest.name != set.name)
    throw Error(set.manifest->path, fmt::format("is the manifest of a set '{}'", manifest.name));
  if (!source_.lists_files()) return;
  std::map<std::string, const RemoteFile*> listed;
  for (const RemoteFile& part : set.parts) listed[part.path] = &part;
  for (const FileEntry& part : manifest.parts) {
    const std::string path = in_directory(set.directory, part.path);
    const auto found = listed.find(path);
    if (found == listed.end())
      throw Error(path, "is in the manifest, but not on the hub: the upload is incomplete. Try again later");
    const RemoteFile& there = *found->second;
    if (there.size != part.size ||
        (!there.sha256.empty() && !part.sha256.empty() && there.sha256 != part.sha256))
      throw Error(ErrorCode::difference, path,
                  fmt::format("is not the part that {} lists: {} bytes and SHA-256 {} instead of {} and {}. "
                              "The set was replaced in part; try again when its upload is complete",
                              set.manifest->path, there.size, there.sha256, part.size, part.sha256));
  }
}

void Fetcher::take(const chunks::UnpackResult& unpacked) {
  result_.files = unpacked.files;
  result_.bytes = unpacked.bytes;
  result_.kept = unpacked.kept;
  unpacked_ = unpacked;
}

void Fetcher::name_places(const std::set<std::string>& tops) {
  constexpr std::size_t kMost = 10;
  if (tops.empty() || tops.size() > kMost) return;
  result_.places.clear();
  for (const std::string& top : tops) result_.places.push_back(join(options_.out, top));
}

void Fetcher::fetch_frames(const RemoteSet& set) {
  result_.kind = FetchKind::frames;
  chunks::ChunkSet chunks{
      .name = set.name, .manifest = {}, .manifest_path = set.manifest->path, .parts = {}, .extra = {}};
  chunks.manifest = read_manifest_of(set);
  const chunks::ChunkManifest& manifest = *chunks.manifest;
  compare_with_listing(set, manifest);
  result_.parts = manifest.parts.size();
  std::set<std::string> tops;
  for (const chunks::Member& member : manifest.layout.members())
    tops.insert(member.path.substr(0, member.path.find('/')));
  if (options_.parts.empty()) {
    chunks.parts.resize(manifest.parts.size());
    const std::uint64_t unpacking = chunks::FrameReader::least_memory(manifest);
    workers_within(context_.memory, HubFrames::least_memory(manifest), unpacking, 1);
    RangeOptions ranges = this->ranges();
    ranges.memory = std::min(ranges.memory, context_.memory - unpacking);  // half, or what remains
    Context context = context_;
    context.memory -= ranges.memory;
    HubFrames feed(source_, set.directory, manifest, ranges, context_);
    const chunks::UnpackResult unpacked = chunks::unpack_frames(chunks, -1, unpack_options(), context, &feed);
    take(unpacked);
    result_.fetch_bytes = unpacked.packed_bytes;
  } else {
    std::vector<RemoteFile> files;
    for (const FileEntry& part : manifest.parts) {
      std::vector<BlockRange> blocks;
      for (std::uint64_t at = 0; at < part.size; at += kTreeBlock)
        blocks.push_back({at, std::min(kTreeBlock, part.size - at)});
      files.push_back(remote_file(set.directory, part, std::move(blocks)));
    }
    RemoteFile list = *set.manifest;
    list.sha256 = sha256_of(*manifest_);
    files.push_back(list);
    fetch_parts(set, files, chunks.manifest);
  }
  name_places(tops);
}

// Downloads into a directory of parts and unpacks from there,
// with the manifest from the source, not the local file.
void Fetcher::fetch_parts(const RemoteSet& set, const std::vector<RemoteFile>& files,
                          const std::optional<chunks::ChunkManifest>& manifest) {
  const DownloadResult download = hub::download(source_, files,
                                                {.out = options_.parts,
                                                 .strip = set.directory,
                                                 .connections = options_.connections,
                                                 .force = options_.force,
                                                 .check_space = options_.check_space,
                                                 .dry_run = options_.dry_run},
                                                context_);
  result_.fetch_bytes = download.bytes - download.kept_bytes;
  if (options_.dry_run) {
    result_.bytes = download.bytes;
    return;
  }
  std::vector<std::string> parts;
  for (const RemoteFile& file : files)
    if (!set.manifest || file.path != set.manifest->path)
      parts.push_back(join(options_.parts, name_of(file.path)));
  chunks::ChunkSet here = chunks::find_chunks(
      parts, set.name, set.manifest ? join(options_.parts, name_of(set.manifest->path)) : "", context_);
  here.manifest = manifest;
  take(chunks::unpack(here, -1, unpack_options(), context_));
}

void Fetcher::fetch_archive(const RemoteSet& set) {
  result_.kind = FetchKind::archive;
  result_.parts = set.parts.size();
  for (const RemoteFile& part : set.parts) result_.fetch_bytes += part.size;
  context_.progress.say(printable(fmt::format(
      "{}: {} parts, {}, without a manifest: files get their names after all of it was read{}", set.path(),
      set.parts.size(), exact_size(result_.fetch_bytes),
      options_.parts.empty()
          ? ", and a stopped run starts from the beginning; with --parts DIR it continues where it stopped"
          : "")));
  if (!options_.parts.empty()) return fetch_parts(set, set.parts, std::nullopt);
  const ArchiveRecord record(set, unpack_options(), context_);
  if (const auto there = record.find()) {
    take(*there);
    result_.fetch_bytes = 0;
  } else if (!options_.dry_run) {
    const Context context = halved();
    CheckedParts parts(source_, set.parts, ranges(), context_);
    chunks::ByteSource bytes([&](Bytes to) { return parts.pull(to); }, parts_of(set), context);
    take(chunks::unpack_stream(bytes, set.name, unpack_options(), context));
    record.write(unpacked_);
  }
  std::set<std::string> tops;
  for (const std::string& path : unpacked_.paths) tops.insert(path.substr(0, path.find('/')));
  name_places(tops);
}

void Fetcher::fetch_tree(const std::vector<RemoteFile>& files) {
  result_.kind = FetchKind::tree;
  if (!options_.parts.empty())
    throw Error(ErrorCode::usage, "", "--parts goes with sets of chunks; these are plain files");
  const chunks::MemberFilter filter(options_.include, options_.exclude);
  std::vector<RemoteFile> wanted;
  std::set<std::string> tops;
  for (const RemoteFile& file : files) {
    if (!filter.wants(file.path)) continue;
    wanted.push_back(file);
    tops.insert(file.path.find('/') == file.path.npos ? "" : file.path.substr(0, file.path.find('/')));
  }
  if (wanted.empty())
    throw Error(source_.shown(),
                files.empty() ? "holds no files" : "holds no file that matches --include and --exclude");
  const DownloadResult download = hub::download(source_, wanted,
                                                {.out = options_.out,
                                                 .connections = options_.connections,
                                                 .force = options_.force,
                                                 .check_space = options_.check_space,
                                                 .dry_run = options_.dry_run},
                                                context_);
  result_.files = download.files;
  result_.bytes = download.bytes;
  result_.kept = download.kept;
  result_.kept_bytes = download.kept_bytes;
  result_.fetch_bytes = download.bytes - download.kept_bytes - download.staged_bytes;
  if (!tops.contains("") || !options_.name.empty()) {
    tops.erase("");
    name_places(tops);
  }
}

}  // namespace

std::string_view name(FetchKind kind) {
  return kind == FetchKind::frames ? "frames" : kind == FetchKind::archive ? "archive" : "tree";
}

FetchResult fetch(const FetchOptions& options, const Context& context) {
  if (options.connections < 1) throw Error(ErrorCode::usage, "", "-j: at least one connection is needed");
  return Fetcher(options, context).run();
}

}  // namespace planesmith::hub
