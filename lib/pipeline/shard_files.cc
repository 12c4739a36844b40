#include "pipeline/shard_files.h"

namespace planesmith {

ShardFiles::ShardFiles(Os& os, const Checkpoint& checkpoint, std::size_t most)
    : os_(os), checkpoint_(checkpoint), most_(most), entries_(checkpoint.shards().size()) {}

std::shared_ptr<const File> ShardFiles::of(const Tensor& tensor) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  Entry& entry = entries_[tensor.shard];
  if (!entry.file) {
    if (open_ >= most_) close_oldest();
    entry.file = std::make_shared<const File>(File::open_read(os_, checkpoint_.shard_path(tensor)));
    ++open_;
  }
  entry.used = ++clock_;
  return entry.file;
}

// Closes the least recently used shard that no thread is reading.
void ShardFiles::close_oldest() const {
  Entry* oldest = nullptr;
  for (Entry& entry : entries_)
    if (entry.file && entry.file.use_count() == 1 && (oldest == nullptr || entry.used < oldest->used))
      oldest = &entry;
  if (oldest == nullptr) return;
  oldest->file.reset();
  --open_;
}

}  // namespace planesmith
