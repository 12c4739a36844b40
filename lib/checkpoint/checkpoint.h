// A checkpoint directory: config, index, shards and their tensors. Opening it reads headers only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/context.h"
#include "base/json.h"
#include "checkpoint/files.h"
#include "checkpoint/safetensors.h"

namespace planesmith {

// Identifies a file's content without reading it: a changed or replaced file has another stamp. Without
// ctime, which changes for reasons other than content.
struct FileStamp {
  std::uint64_t device = 0, inode = 0, size = 0;
  std::int64_t mtime_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(const struct stat& status);

struct Shard {
  std::string name;  // as the index lists it, relative to the directory
  std::string path;  // directory + name
  std::uint64_t file_bytes = 0;
  std::uint64_t header_bytes = 0;
  FileStamp stamp;  // when its header was read
};

class Checkpoint {
 public:
  // Reads config.json, the index and the headers of checkpoint_files() (in parallel). A
  // tensor in another shard than the index says, or not listed in it, is found; a listed
  // tensor that no shard holds is absent: both are reported through context.progress. Errors:
  // malformed files; a tensor in two shards without an index that says which one counts.
  static Checkpoint open(const Context& context, const std::string& directory);

  Checkpoint(Checkpoint&&) = default;  // by_name_ points into the tensors: not copyable
  Checkpoint& operator=(Checkpoint&&) = default;

  const std::string& directory() const { return directory_; }
  const Json& config() const { return config_; }  // the whole of config.json
  bool has_index() const { return has_index_; }
  const std::vector<Shard>& shards() const { return shards_; }        // sorted by name
  const std::vector<Tensor>& tensors() const { return tensors_; }     // sorted by (shard, offset)
  const Tensor* find(std::string_view name) const;                    // null: no such tensor
  const std::vector<std::string>& absent() const { return absent_; }  // listed, but in no shard; sorted
  // Error: a shard is no longer the file whose header was read.
  void refuse_changed(Os& os) const;
  const std::string& shard_path(const Tensor& tensor) const { return shards_[tensor.shard].path; }

 private:
  Checkpoint() = default;
  std::string directory_;
  Json config_;
  bool has_index_ = false;
  std::vector<Shard> shards_;
  std::vector<Tensor> tensors_;
  std::vector<std::string> absent_;
  std::unordered_map<std::string_view, std::uint32_t> by_name_;
};

// The value of `key` in "text_config", where config.json may nest the language model's settings,
// or else at the top; null where absent.
const Json& config_value(const Json& config, std::string_view key);

}  // namespace planesmith
