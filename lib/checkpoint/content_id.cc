#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/file_status.h"
#include "base/json.h"
#include "base/lfs_pointer.h"
#include "base/parallel.h"
#include "base/stream.h"
#include "base/text.h"
#include "checkpoint/files.h"
#include "checkpoint/identity.h"
#include "checkpoint/known_digests.h"
#include "checkpoint/pin.h"

namespace planesmith {
namespace {

// File times move in ticks of the kernel's clock. A file that changed within the current tick could change
// again with the same times, and the wrong digest would be remembered; so wait for the next tick.
void let_tick_pass(const struct stat& status) {
  constexpr auto kTick = std::chrono::milliseconds(20);
  const auto changed = std::chrono::system_clock::time_point(
      std::chrono::seconds(status.st_ctim.tv_sec) + std::chrono::nanoseconds(status.st_ctim.tv_nsec));
  const auto age = std::chrono::system_clock::now() - changed;
  if (age >= std::chrono::seconds(0) && age < kTick) std::this_thread::sleep_for(kTick);
}

std::string hash_shard(const Context& context, const std::string& path, Bytes buffer) {
  const File file = File::open_read(context.os, path);
  let_tick_pass(file.status());
  const struct stat before = file.status();
  Sha256 sha;
  stream_ahead(context, file, 0, static_cast<std::uint64_t>(before.st_size), buffer,
               [&](ConstBytes piece) { sha.update(piece); });
  if (!unchanged(before, file.status()))
    throw Error(path, "changed while it was read; wait until its writer has finished, then run this again");
  std::string digest = hex(sha.finish());
  remember_digest(context.os, path, before, digest);
  return digest;
}

}  // namespace

ContentId content_id(const Context& context, const std::string& directory, bool recompute) {
  if (!S_ISDIR(status(context.os, directory).st_mode))
    throw Error(directory, "is not a directory; a checkpoint directory was expected");
  const CheckpointStats stats =
      read_checkpoint_stats(context, directory, content_files(context.os, directory));
  if (stats.shards.empty()) throw Error(directory, "holds no shards; there is nothing to identify");
  ContentId result;
  const auto put = [&](std::string_view name, const std::optional<Sha256Digest>& digest) {
    if (digest) result.sha256[std::string(name)] = hex(*digest);
  };
  put(kConfigName, stats.config);
  put(kIndexName, stats.safetensors_index);
  put(kBinIndexName, stats.bin_index);

  std::vector<const ShardStat*> unknown;
  for (const ShardStat& shard : stats.shards) {
    constexpr std::uint64_t kMostPointerBytes = kKiB;  // of git-LFS
    if (shard.size < kMostPointerBytes)
      refuse_lfs_pointer(File::open_read(context.os, join(directory, shard.name)));
    KnownDigest known;
    if (!recompute)
      known =
          known_digest(context.os, directory, shard.name, status(context.os, join(directory, shard.name)));
    (known.sha256.empty() ? result.bytes_hashed : result.bytes_known) += shard.size;
    if (known.by_download) result.by_download.push_back(shard.name);
    if (known.sha256.empty())
      unknown.push_back(&shard);
    else
      result.sha256[shard.name] = known.sha256;
  }
  // The largest first, so that no thread is left alone with a large one at the end.
  std::stable_sort(unknown.begin(), unknown.end(),
                   [](const auto* a, const auto* b) { return a->size > b->size; });
  if (!unknown.empty()) {
    StreamBuffers buffers(context);
    std::mutex mutex;
    context.progress.begin("hashing the checkpoint (SHA-256)", result.bytes_hashed);
    parallel_for(unknown.size(), buffers.workers(), [&](std::size_t i, int worker) {
      const std::string digest = hash_shard(context, join(directory, unknown[i]->name), buffers.of(worker));
      const std::lock_guard<std::mutex> lock(mutex);
      result.sha256[unknown[i]->name] = digest;
    });
    context.progress.end();
  }
  try {
    result.id = sha256_hex(compact({{"scheme", "content-sha256-v1"}, {"files", result.sha256}}));
  } catch (const Error&) {
    throw Error(directory, "a shard's name is not UTF-8, so the content id is not defined; rename it");
  }
  return result;
}

Identity resolve_identity(const Context& context, const IdentityOptions& options,
                          const std::string& directory) {
  const auto refuse = [](const char* what) { throw Error(ErrorCode::usage, "", what); };
  if (options.pin && options.served_path) refuse("--ckpt-id and --served-path exclude each other");
  if (options.revision && !options.served_path) refuse("--revision goes with --served-path only");
  if (options.pin) {
    check_pin(*options.pin, "--ckpt-id");
    return {*options.pin, false, "pinned with --ckpt-id"};
  }
  if (options.served_path) {
    if (has_control_characters(*options.served_path)) refuse("--served-path has control characters");
    if (has_control_characters(options.revision.value_or(""))) refuse("--revision has control characters");
    const std::string revision = options.revision.value_or("");
    const std::string how = fmt::format("the engine's own for served path '{}'", *options.served_path);
    struct stat st {};
    if (context.os.stat(directory.c_str(), &st) != 0 || !S_ISDIR(st.st_mode))
      return {engine_id_of_remote(*options.served_path, revision), false, how};
    return {engine_id(*options.served_path, revision, read_checkpoint_stats(context, directory)), false, how};
  }
  const ContentId content = content_id(context, directory, options.recompute);
  const std::string unread = content.by_download.empty()
                                 ? ""
                                 : fmt::format(
                                       "; the digests of {} shards come from download metadata and were "
                                       "not verified (--recompute reads the shards)",
                                       content.by_download.size());
  return {content.id, !content.by_download.empty(),
          fmt::format("content id; {} hashed now, {} known before{}", short_size(content.bytes_hashed),
                      short_size(content.bytes_known), unread)};
}

}  // namespace planesmith
