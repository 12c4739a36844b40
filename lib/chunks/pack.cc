#include "chunks/pack.h"

#include <errno.h>
#include <fmt/format.h>
#include <string.h>
#include <zstd.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "base/lock_file.h"
#include "base/parallel.h"
#include "base/paths.h"
#include "base/size.h"
#include "base/text.h"
#include "base/version.h"
#include "chunks/block_digests.h"
#include "chunks/chunk_set.h"
#include "chunks/frame.h"
#include "chunks/in_order.h"
#include "chunks/part_writer.h"
#include "chunks/stream_reader.h"

namespace planesmith::chunks {
namespace {

using Buffer = std::unique_ptr<std::uint8_t[]>;
Buffer new_buffer(std::uint64_t size) {
  return std::make_unique_for_overwrite<std::uint8_t[]>(size);
}

std::uint64_t content_size(const PackPlan& plan, const PackOptions& options, std::size_t frame) {
  return std::min(options.frame_size, plan.layout.size() - frame * options.frame_size);
}

void check_options(const PackOptions& options) {
  const auto refuse = [](const std::string& why) { return Error(ErrorCode::usage, "", why); };
  if (options.level < 0 || options.level > kMaxLevel)
    throw refuse(fmt::format("--level: 0 to {} are possible", kMaxLevel));
  if (!options.as.empty() && options.sources.size() != 1)
    throw refuse("--as names the one source in the archive; with several each keeps its own name");
  if (!options.as.empty() && !is_inner_path(options.as))
    throw refuse("--as: is not a relative path without '.' and '..'");
  if (options.frame_size < kMinFrameSize || options.frame_size > kMaxFrameSize)
    throw refuse(fmt::format("--frame-size: {} is not between {} and {}", exact_size(options.frame_size),
                             short_size(kMinFrameSize), short_size(kMaxFrameSize)));
  if (options.part_size < frame_bound(options.frame_size))
    throw refuse(fmt::format(
        "--part-size: {} is less than what one frame of {} may compress to, {} bytes; a frame is never split",
        exact_size(options.part_size), short_size(options.frame_size), frame_bound(options.frame_size)));
}

void check_out_is_outside(const PackOptions& options, const Context& context) {
  if (options.out.empty()) return;
  const std::string out = real_path(nearest_existing(context.os, options.out));
  for (const std::string& source : options.sources) {
    if (!exists(context.os, source)) continue;  // scan() says so
    if (is_inside(out, real_path(source)))
      throw Error(ErrorCode::usage, options.out,
                  fmt::format("lies inside {}, which is to be packed; choose another directory", source));
  }
}

void choose_threads(PackPlan& plan, const PackOptions& options, const Context& context) {
  const std::uint64_t content = std::min(options.frame_size, plan.layout.size());
  const auto memory = [&](int threads, std::size_t slots) {
    return static_cast<std::uint64_t>(threads) * (content + Compressor::memory(options.level, content)) +
           slots * frame_bound(content);
  };
  plan.threads = static_cast<int>(
      std::clamp<std::size_t>(plan.frames, 1, static_cast<std::size_t>(std::max(context.threads, 1))));
  for (;; --plan.threads) {
    // One thread takes its own frame at once; several should seldom wait for each other.
    plan.slots = plan.threads == 1 ? 1 : static_cast<std::size_t>(plan.threads) + 2;
    plan.memory = memory(plan.threads, plan.slots);
    if (plan.memory <= context.memory) return;
    if (plan.threads == 1)
      throw Error(ErrorCode::usage, "",
                  fmt::format("--memory: {} is too little; frames of {} at level {} need {} or more",
                              exact_size(context.memory), short_size(options.frame_size), options.level,
                              exact_size(plan.memory)));
  }
}

void check_space(const PackPlan& plan, const PackOptions& options, const Context& context) {
  if (options.out.empty()) return;
  std::uint64_t room = free_space(context.os, nearest_existing(context.os, options.out));
  if (exists(context.os, options.out))  // parts of this name that are there are gone on from or replaced
    for (const auto& files : {finished_files(context.os, options.out, options.name),
                              unfinished_files(context.os, options.out, options.name)})
      for (const std::string& file : files) {
        struct stat st {};  // no error where it is gone: another run may just have renamed it
        if (context.os.stat(join(options.out, file).c_str(), &st) == 0)
          room += static_cast<std::uint64_t>(st.st_size);
      }
  if (plan.most_bytes <= room) return;
  if (options.level == 0)
    throw Error(options.out,
                fmt::format("has room for {}, {} are needed", exact_size(room), exact_size(plan.most_bytes)));
  context.progress.say(
      fmt::format("{} has room for {}; the parts take {} if nothing can be compressed. If the disk fills up, "
                  "make room and run the same command again to go on",
                  printable(options.out), exact_size(room), exact_size(plan.most_bytes)));
}

// All that the parts' bytes depend on, and what tells that the files were not touched since.
std::string fingerprint(const PackPlan& plan, const PackOptions& options) {
  Sha256 sha;
  const auto add = [&](const auto&... values) { (sha.update(fmt::format("{}\n", values)), ...); };
  add(version(), ZSTD_versionString(), options.name.size(), options.name, options.level, options.frame_size,
      options.part_size, options.xxh3, options.sha256);
  for (std::size_t m = 0; m < plan.origins.size(); ++m) {
    const Member& member = plan.layout.members()[m];
    const Origin& origin = plan.origins[m];
    add(member.path.size(), member.path, name(member.type), member.mode, member.size, member.target.size(),
        member.target, member.extents.size());
    for (const Extent& extent : member.extents) add(extent.offset, extent.size);
    if (member.type == MemberType::file) add(origin.inode, origin.mtime_ns, origin.ctime_ns);
  }
  return hex(sha.finish());
}

using Append = std::function<void(ConstBytes frame, const Xxh3& content)>;

// Reads, digests and compresses the frames from `first` on, and hands them on in order.
void make_frames(const PackPlan& plan, const PackOptions& options, const Context& context, std::size_t first,
                 Gate& gate, BlockDigests* digests, const Append& append) {
  struct Worker {
    Compressor compressor;
    Buffer content;
  };
  struct Slot {
    Buffer frame;
    std::size_t size = 0;
    Xxh3 content;
  };
  std::vector<std::unique_ptr<Worker>> workers(static_cast<std::size_t>(plan.threads));
  std::vector<Slot> slots(plan.slots);
  const std::uint64_t bound = frame_bound(options.frame_size);
  in_order(
      gate, first, plan.frames, plan.threads, plan.slots,
      [&](std::size_t f, int w, std::size_t s) {
        context.check_stop();
        auto& worker = workers[static_cast<std::size_t>(w)];
        if (!worker) worker.reset(new Worker{Compressor(options.level), new_buffer(options.frame_size)});
        Slot& slot = slots[s];
        if (!slot.frame) slot.frame = new_buffer(bound);
        const Bytes content(worker->content.get(), content_size(plan, options, f));
        read_stream(plan.layout, plan.origins, context, f * options.frame_size, content);
        slot.content = Xxh3::of(content);
        slot.size = worker->compressor.compress(content, Bytes(slot.frame.get(), bound));
        if (digests != nullptr) digests->add(f * options.frame_size, content);
      },
      [&](std::size_t f, std::size_t s) {
        append(ConstBytes(slots[s].frame.get(), slots[s].size), slots[s].content);
        context.progress.advance(content_size(plan, options, f));
      });
}

void put_in_digests(std::vector<Member>& members, const BlockDigests& digests) {
  for (std::size_t m = 0; m < members.size(); ++m) members[m].blocks = digests.of(m);
}

bool same_member(const Member& a, const Member& b) {
  return a.path == b.path && a.type == b.type && a.mode == b.mode && a.size == b.size &&
         a.target == b.target && a.extents == b.extents && a.offset == b.offset &&
         a.data_offset == b.data_offset;
}

// Whether the set that is there was made from these files with these options.
bool is_ours(const ChunkManifest& there, const PackPlan& plan, const PackOptions& options,
             const Context& context) {
  if (there.tool != version() || there.zstd != ZSTD_versionString() || there.name != options.name ||
      there.level != options.level || there.frame_size != options.frame_size ||
      there.part_size != options.part_size || there.layout.size() != plan.layout.size())
    return false;
  const auto &ours = plan.layout.members(), &theirs = there.layout.members();
  if (!std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same_member)) return false;
  for (const FileEntry& part : there.parts) {
    const std::string path = join(options.out, part.path);
    if (part.xxh3.has_value() != options.xxh3 || part.sha256.empty() == options.sha256) return false;
    if (!exists(context.os, path) ||
        static_cast<std::uint64_t>(status(context.os, path).st_size) != part.size)
      return false;
  }
  Gate gate;
  BlockDigests digests(plan.layout, gate);
  context.progress.begin("comparing with what is packed", plan.layout.size());
  std::vector<Buffer> buffers(static_cast<std::size_t>(plan.threads));
  parallel_for(plan.frames, plan.threads, [&](std::size_t f, int w) {
    gate.guard([&] {
      context.check_stop();
      Buffer& buffer = buffers[static_cast<std::size_t>(w)];
      if (!buffer) buffer = new_buffer(options.frame_size);
      const Bytes content(buffer.get(), content_size(plan, options, f));
      read_stream(plan.layout, plan.origins, context, f * options.frame_size, content);
      digests.add(f * options.frame_size, content);
      context.progress.advance(content.size());
    });
  });
  context.progress.end();
  for (std::size_t m = 0; m < ours.size(); ++m)
    if (digests.of(m) != theirs[m].blocks) return false;
  return true;
}

void remove_files(const Context& context, const std::string& dir, const std::vector<std::string>& names) {
  for (const std::string& name : names) remove_file(context.os, join(dir, name));
  if (!names.empty()) sync_dir(context.os, dir);
}

}  // namespace

std::uint64_t PackPlan::content_size() const {
  std::uint64_t sum = 0;
  for (const Member& member : layout.members()) sum += member.size;
  return sum;
}

PackPlan plan_pack(const PackOptions& options, const Context& context) {
  check_options(options);
  check_out_is_outside(options, context);
  Tree tree = scan(options, context);
  PackPlan plan{.layout = Layout::arrange(std::move(tree.members)), .origins = std::move(tree.origins)};
  const std::uint64_t size = plan.layout.size();
  plan.frames = (size + options.frame_size - 1) / options.frame_size;
  const std::uint64_t at_least_in_a_part = options.part_size / frame_bound(options.frame_size);
  plan.most_parts = (plan.frames + at_least_in_a_part - 1) / at_least_in_a_part;
  const auto most = options.level == 0 ? &stored_size : &frame_bound;
  plan.most_bytes =
      (plan.frames - 1) * most(options.frame_size) + most(content_size(plan, options, plan.frames - 1));
  choose_threads(plan, options, context);
  check_space(plan, options, context);
  return plan;
}

void pack_to_stream(const PackPlan& plan, const PackOptions& options, int fd, const Context& context) {
  Gate gate;
  context.progress.begin("packing", plan.layout.size());
  make_frames(plan, options, context, 0, gate, nullptr, [&](ConstBytes frame, const Xxh3&) {
    while (!frame.empty()) {
      const ssize_t n = context.os.write(fd, frame.data(), frame.size());
      if (n < 0 && errno != EINTR) throw Error("standard output", strerror(errno));
      if (n > 0) frame = frame.subspan(static_cast<std::size_t>(n));
    }
  });
  context.progress.end();
}

namespace {

ChunkManifest readable_manifest(Os& os, const std::string& path) {
  try {
    return read_chunk_manifest(os, path);
  } catch (const Error& error) {
    throw Error(path, error.reason() + "; choose another --name, or replace it and its parts with -f");
  }
}

bool is_manifest(const std::string& file) {
  return !set_of_manifest(file).empty();
}

// As `sha256sum` prints it.
std::string digest_list(const ChunkManifest& manifest) {
  std::string text;
  for (const FileEntry& part : manifest.parts) text += fmt::format("{}  {}\n", part.sha256, part.path);
  return text;
}

}  // namespace

PackResult pack(const PackPlan& plan, const PackOptions& options, const Context& context) {
  Os& os = context.os;
  make_dirs(os, options.out);
  std::vector<LockFile> lock;
  const std::string lock_path = join(options.out, options.name + ".tar.zst.lock");
  if (!LockFile::try_take(os, lock_path, lock))
    throw Error(lock_path, "another run is packing under this name; wait for it or choose another --name");

  std::string manifest_path = find_manifest(os, options.out, options.name);
  if (options.force) {
    std::vector<std::string> there = finished_files(os, options.out, options.name);
    std::stable_partition(there.begin(), there.end(), is_manifest);
    remove_files(context, options.out, there);
    remove_files(context, options.out, unfinished_files(os, options.out, options.name));
  } else if (!manifest_path.empty()) {
    ChunkManifest there = readable_manifest(os, manifest_path);
    if (!is_ours(there, plan, options, context))
      throw Error(manifest_path,
                  "is there already and was not made from these files with these options, or lacks a part; "
                  "choose another --name, or replace it with -f");
    remove_files(context, options.out, unfinished_files(os, options.out, options.name));
    const std::size_t kept = there.parts.size();
    return {std::move(there), manifest_path, kept};
  }

  Gate gate;
  BlockDigests digests(plan.layout, gate);
  PartWriter writer({.dir = options.out,
                     .name = options.name,
                     .digits = part_digits(plan.most_parts),
                     .part_size = options.part_size,
                     .frame_size = options.frame_size,
                     .stream_size = plan.layout.size(),
                     .xxh3 = options.xxh3,
                     .sha256 = options.sha256,
                     .fingerprint = fingerprint(plan, options)},
                    context, digests);
  const std::size_t first = writer.resume(options.recheck);
  const std::size_t kept = writer.parts().size();
  for (const std::string& file : finished_files(os, options.out, options.name)) {
    const auto ours = std::find_if(writer.parts().begin(), writer.parts().end(),
                                   [&](const FileEntry& part) { return part.path == file; });
    if (ours == writer.parts().end() && file != digest_list_name(options.name))
      throw Error(join(options.out, file),
                  "is there already and no part that this run can go on from (other files, other options, "
                  "or changed since); choose another --name, or replace it with -f");
  }
  if (kept != 0) context.progress.say(fmt::format("going on behind {} finished parts", kept));
  if (first < plan.frames) {
    const std::uint64_t at = first * options.frame_size, from = digests.block_begin(at);
    const Buffer buffer = new_buffer(at - from);
    const Bytes before(buffer.get(), at - from);
    read_stream(plan.layout, plan.origins, context, from, before);
    digests.add(from, before);
    context.progress.begin("packing", plan.layout.size() - at);
    make_frames(plan, options, context, first, gate, &digests,
                [&](ConstBytes frame, const Xxh3& content) { writer.append(frame, content); });
    context.progress.end();
  }
  writer.finish();

  manifest_path = join(options.out, manifest_name(options.name));
  PackResult result{{.tool = version(),
                     .zstd = ZSTD_versionString(),
                     .name = options.name,
                     .level = options.level,
                     .frame_size = options.frame_size,
                     .part_size = options.part_size,
                     .parts = writer.parts(),
                     .frames = writer.frames(),
                     .layout = plan.layout},
                    manifest_path,
                    kept};
  put_in_digests(result.manifest.layout.members(), digests);
  if (options.sha256)
    write_atomically(os, join(options.out, digest_list_name(options.name)), digest_list(result.manifest));
  write_atomically(os, manifest_path, to_json(result.manifest));
  remove_files(context, options.out, unfinished_files(os, options.out, options.name));
  return result;
}

}  // namespace planesmith::chunks
