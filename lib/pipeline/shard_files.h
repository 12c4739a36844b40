// A checkpoint's shards, opened at their first use; limited to the number of files that may be open.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"

namespace planesmith {

class ShardFiles {
 public:
  // Keeps about `most` shards open: those in use, and the most recently used ones.
  ShardFiles(Os& os, const Checkpoint& checkpoint, std::size_t most);

  // The shard that holds a tensor. From any thread.
  std::shared_ptr<const File> of(const Tensor& tensor) const;

 private:
  struct Entry {
    std::shared_ptr<const File> file;
    std::uint64_t used = 0;
  };
  void close_oldest() const;

  Os& os_;
  const Checkpoint& checkpoint_;
  const std::size_t most_;
  mutable std::mutex mutex_;
  mutable std::vector<Entry> entries_;  // by number of the shard
  mutable std::size_t open_ = 0;
  mutable std::uint64_t clock_ = 0;
};

}  // namespace planesmith
