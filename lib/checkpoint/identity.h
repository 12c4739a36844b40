// Which checkpoint a cache was made from (FORMAT.md section 8; CLI.md, "Identity"). There are three kinds of
// id: a pin, any string that the server also gets; the engine's own id, which changes with the files' times;
// and the content id, which survives copying.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/hash.h"

namespace planesmith {

// --- the engine's own id ---

struct ShardStat {
  std::string name;        // as in the index or the directory
  std::uint64_t size = 0;  // size and times are those of a link's target
  std::int64_t mtime_ns = 0, ctime_ns = 0;
  std::string resolved_blob;  // last component of the real path
};

// What the engine derives its id from.
struct CheckpointStats {
  std::optional<Sha256Digest> config, safetensors_index, bin_index;  // of the files' bytes, where present
  std::vector<ShardStat> shards;                                     // in any order
};

// Errors: a malformed index, a listed shard that is missing, a directory without any file of a checkpoint.
CheckpointStats read_checkpoint_stats(const Context& context, const std::string& directory);
// The same with these shards in place of those that the indexes list.
CheckpointStats read_checkpoint_stats(const Context& context, const std::string& directory,
                                      const std::vector<std::string>& shards);

// `served_path`: the model path that the server is started with; `revision` may be empty.
std::string engine_id(std::string_view served_path, std::string_view revision, const CheckpointStats& stats);
// The same for a model that is not a local directory. Error: the revision is not 40 hex digits.
std::string engine_id_of_remote(std::string_view served_path, std::string_view revision);

// --- the content id ---

struct ContentId {
  std::string id;
  std::map<std::string, std::string> sha256;  // by name: config.json, the indexes, every shard
  std::uint64_t bytes_hashed = 0;             // read now
  std::uint64_t bytes_known = 0;              // digests reused; known_digests.h says from where
  std::vector<std::string> by_download;       // those known only from the hub client's metadata
};

// Hashes those of content_files() whose digests are not known yet, shards in parallel. `recompute`: hashes
// all. Errors: as read_checkpoint_stats; a file that changes meanwhile.
ContentId content_id(const Context& context, const std::string& directory, bool recompute);

// --- a program's options ---

struct IdentityOptions {
  std::optional<std::string> pin{};          // --ckpt-id
  std::optional<std::string> served_path{};  // --served-path
  std::optional<std::string> revision{};     // --revision, with a served path
  bool recompute = false;
  // Neither pin nor served path: the content id, which may have to read the whole checkpoint.
  bool by_content() const { return !pin && !served_path; }
};

struct Identity {
  std::string id;
  bool by_download = false;  // a digest came from the hub client's metadata; that shard was not read
  std::string how;           // "content id; 12.0 GiB hashed now, 541 GiB known before": for summaries
};

// Errors (usage): a pin that is empty or not UTF-8,
// a revision without a served path, pin and served path together.
Identity resolve_identity(const Context& context, const IdentityOptions& options,
                          const std::string& directory);

}  // namespace planesmith
