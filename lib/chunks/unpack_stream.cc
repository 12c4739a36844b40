// Unpacking without a manifest: one stream of one tar or several. Only its end shows whether it is complete,
// so files get their names after all of it was read.
#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/size.h"
#include "base/space.h"
#include "chunks/byte_source.h"
#include "chunks/member_filter.h"
#include "chunks/safe_members.h"
#include "chunks/tar.h"
#include "chunks/target.h"
#include "chunks/unpack.h"
#include "chunks/zstd_stream.h"

namespace planesmith::chunks {
namespace {

Error not_complete(const ZstdStream& content, std::string_view why) {
  return content.error(
      fmt::format("the content is not a complete tar (seen in the frame that begins here): {}", why));
}

// libarchive over a ZstdStream. Exceptions cannot pass through C code, so they are kept here and rethrown.
class TarStream {
 public:
  TarStream(ZstdStream& content, const Context& context) : content_(content), context_(context) {
    if (!in_) throw std::bad_alloc();
    require(archive_read_support_format_tar(in_.get()));
    // Only another tar or zeros may follow a tar's end.
    require(archive_read_set_format_option(in_.get(), "tar", "read_concatenated_archives", "1"));
    require(archive_read_open(in_.get(), this, nullptr, &read, nullptr));
  }

  // The next entry; nullptr at the end of the archive.
  archive_entry* next() {
    archive_entry* entry = nullptr;
    return require(archive_read_next_header(in_.get(), &entry)) ? entry : nullptr;
  }

  // The next run of the entry's data; false at its end.
  bool next_data(ConstBytes& bytes, std::uint64_t& offset) {
    const void* data = nullptr;
    std::size_t size = 0;
    la_int64_t at = 0;
    if (!require(archive_read_data_block(in_.get(), &data, &size, &at))) return false;
    bytes = {static_cast<const std::uint8_t*>(data), size};
    offset = static_cast<std::uint64_t>(at);
    return true;
  }

 private:
  static la_ssize_t read(archive*, void* self, const void** bytes) {
    auto& tar = *static_cast<TarStream*>(self);
    try {
      tar.context_.check_stop();
      ConstBytes content = tar.content_.next();
      if (content.empty()) content = tar.rest_of_padding();
      tar.read_ += content.size();
      tar.context_.progress.advance(content.size());
      *bytes = content.data();
      return static_cast<la_ssize_t>(content.size());
    } catch (...) {
      tar.failure_ = std::current_exception();
      return ARCHIVE_FATAL;
    }
  }

  // libarchive needs whole blocks, even of the zeros that some programs append to an archive.
  ConstBytes rest_of_padding() const {
    static constexpr std::uint8_t kZeros[kTarBlock] = {};
    const std::uint64_t over = read_ % kTarBlock;
    return ConstBytes(kZeros).first(over != 0 && content_.zeros_at_end() >= over ? kTarBlock - over : 0);
  }

  // False at the end of the archive or entry; throws on failure.
  bool require(int result) {
    if (failure_) std::rethrow_exception(failure_);
    if (result == ARCHIVE_EOF) return false;
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return true;
    const char* const why = archive_error_string(in_.get());
    throw not_complete(content_, why == nullptr ? "no reason is known" : why);
  }

  ZstdStream& content_;
  const Context& context_;
  std::exception_ptr failure_;
  std::uint64_t read_ = 0;  // bytes of the tar that libarchive has got
  std::unique_ptr<archive, int (*)(archive*)> in_{archive_read_new(), &archive_read_free};
};

class StreamUnpacker {
 public:
  // source: name of the content's source, for messages.
  StreamUnpacker(std::string source, const UnpackOptions& options, Target& target, const Context& context)
      : source_(std::move(source)),
        filter_(options.include, options.exclude),
        target_(target),
        options_(options),
        context_(context) {}

  void read(ZstdStream& content) {
    const Utf8Locale utf8;
    TarStream tar(content, context_);
    while (archive_entry* const entry = tar.next()) {
      context_.check_stop();
      Member member = member_of(entry);
      if (member.path.empty()) continue;  // the directory that was packed as "."
      check_safe_name(member);
      if (!filter_.wants(member.path)) continue;
      count_memory(member);
      const std::size_t index = place_for(member.path);
      if (member.type == MemberType::file) stage(tar, index, member);
      members_[index] = std::move(member);
    }
    // Reads what follows the tar's end, so that the last frame's checksum is checked too.
    while (!content.next().empty()) {
    }
    if (content.zeros_at_end() < kTarEnd) throw not_complete(content, "it has no end; is a part missing?");
  }

  UnpackResult install() {
    check_safe(members_, target_.on_disk());
    if (members_.empty() && !filter_.everything())
      throw Error("no member of the archive matches --include and --exclude");
    UnpackResult result;
    const auto each = [&](auto wanted, auto put) {
      for (std::size_t i = 0; i < members_.size(); ++i)
        if (wanted(members_[i].type)) put(i, members_[i]);
    };
    each([](MemberType type) { return type == MemberType::directory; },
         [&](std::size_t, const Member& m) { target_.make_directory(m.path); });
    each([](MemberType type) { return type == MemberType::file; },
         [&](std::size_t i, const Member& m) {
           context_.check_stop();
           target_.make_directory(parent_of(m.path));
           target_.put_file(i, m);
           ++result.files;
           result.bytes += m.size;
           result.paths.push_back(m.path);
         });
    for (const MemberType link : {MemberType::hardlink, MemberType::symlink})
      each([&](MemberType type) { return type == link; },
           [&](std::size_t i, const Member& m) {
             target_.make_directory(parent_of(m.path));
             target_.put_link(i, m);
           });
    for (std::size_t i = members_.size(); i-- > 0;)
      if (members_[i].type == MemberType::directory) target_.set_mode(members_[i]);
    return result;
  }

 private:
  // The index for a member; it replaces an earlier one of the same name, as with tar.
  std::size_t place_for(const std::string& path) {
    const auto [at, is_new] = places_.try_emplace(path, members_.size());
    if (is_new) members_.emplace_back();
    target_.remove_staged(at->second);
    return at->second;
  }

  // Names, links and maps of holes are kept until the end; this bounds their memory.
  void count_memory(const Member& member) {
    constexpr std::uint64_t kEach = 256;  // the member and its place in the index
    kept_ += kEach + sizeof(Member) + 2 * member.path.size() + member.target.size() +
             member.extents.size() * sizeof(Extent);
    if (kept_ > context_.memory / 2)
      throw Error(source_, fmt::format("has more members than --memory {} allows; give more",
                                       exact_size(context_.memory)));
  }

  void stage(TarStream& tar, std::size_t index, const Member& member) {
    if (options_.check_space)
      require_space(context_.os, target_.dir().path_of(member.path), member.data_size());
    target_.set_size(index, member, 0);
    ConstBytes bytes;
    std::uint64_t offset = 0;
    while (tar.next_data(bytes, offset)) {
      if (offset > member.size || bytes.size() > member.size - offset)
        throw Error(member.path, "has more data than its header says");
      if (!bytes.empty()) target_.write(index, member, offset, bytes);
    }
    target_.set_size(index, member, member.size);
  }

  const std::string source_;
  const MemberFilter filter_;
  Target& target_;
  const UnpackOptions& options_;
  const Context& context_;
  std::vector<Member> members_;                // wanted, in the order of their first appearance
  std::map<std::string, std::size_t> places_;  // by path, in members_
  std::uint64_t kept_ = 0;                     // approximate bytes of memory
};

// from: name of the bytes' source, for messages.
UnpackResult unpack_from(ByteSource& source, const std::string& from, const std::string& name,
                         const UnpackOptions& options, const Context& context) {
  ZstdStream content(source, context);
  Target target(options.out, name.empty() ? "stream" : name, options.force, options.preserve_modes, context);
  target.remove_all_staged();
  StreamUnpacker unpacker(from, options, target, context);
  context.progress.begin("unpacking", 0);
  UnpackResult result;
  try {
    unpacker.read(content);
    result = unpacker.install();
  } catch (...) {
    target.give_up();
    throw;
  }
  context.progress.end();
  target.sync_directories();
  target.remove_all_staged();
  return result;
}

}  // namespace

UnpackResult unpack_stream(const ChunkSet& set, int input, const UnpackOptions& options,
                           const Context& context) {
  ByteSource source(input, set.parts, context);
  return unpack_from(source, input >= 0 ? "standard input" : set.parts.front(), set.name, options, context);
}

UnpackResult unpack_stream(ByteSource& source, const std::string& name, const UnpackOptions& options,
                           const Context& context) {
  return unpack_from(source, name, name, options, context);
}

UnpackResult unpack(const ChunkSet& set, int input, const UnpackOptions& options, const Context& context) {
  const auto refuse = [](const char* why) { return Error(ErrorCode::usage, "", why); };
  if (options.stream_delete && (input >= 0 || !set.manifest))
    throw refuse(
        "--stream-delete needs part files and their manifest: without a manifest no part is verified "
        "before the end");
  if (options.stream_delete && !(options.include.empty() && options.exclude.empty()))
    throw refuse("--stream-delete removes whole parts; it cannot be used with --include or --exclude");
  if (options.dry_run && !set.manifest)
    throw refuse("--dry-run needs a manifest; without one all parts would have to be read");
  return set.manifest ? unpack_frames(set, input, options, context)
                      : unpack_stream(set, input, options, context);
}

}  // namespace planesmith::chunks
