// The shards of a rewritten checkpoint: which tensors are copied, which are made, and where each byte of each
// new shard goes. All of it is known before the first write.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "repack/repack_plan.h"
#include "rewrite/job.h"

namespace planesmith {

// Bytes. A larger shard is cut into several, as Hugging Face's tools do it.
inline constexpr std::uint64_t kMostShardBytes = 5'000'000'000;

struct NewShard {
  RepackFile file;     // name, bytes, and the number of tensors that jobs make; no tasks
  std::string header;  // with its 8 length bytes; empty: not a shard but a copied file
  struct Work {
    const Job* job;
    std::vector<std::uint64_t> offsets;  // in the file, of each tensor that the job makes
  };
  std::vector<Work> work;
};

class NewShards {
 public:
  explicit NewShards(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // Leaves the tensor out of the new checkpoint; its shard is rewritten.
  void replace(const Tensor& tensor);
  // Adds the job's tensors to this shard, one of the source or a new one.
  void add(const std::string& shard, std::unique_ptr<Job> job);
  void add(const Tensor& beside, std::unique_ptr<Job> job) {
    add(checkpoint_.shards()[beside.shard].name, std::move(job));
  }

  // Shards of the source in which nothing changes.
  std::vector<std::string> untouched() const;
  // The rewritten shards. Tensors that are not replaced are copied. Call once. Error: two tensors with one
  // name, untouched shards included.
  std::vector<NewShard> lay_out();
  // Valid after lay_out(): the shard of each tensor of the new checkpoint by name, and the bytes of all
  // tensors.
  const std::map<std::string, std::string>& index() const { return index_; }
  std::uint64_t total_size() const { return total_size_; }
  std::uint64_t made() const { return made_; }  // tensors that jobs of add() make

 private:
  void lay_out(const std::string& name, std::vector<NewShard>& out);
  void list(const std::string& tensor, const std::string& shard, std::uint64_t bytes);

  const Checkpoint& checkpoint_;
  std::map<std::string, std::vector<std::unique_ptr<Job>>> groups_;  // by shard
  std::set<const Tensor*> replaced_;
  std::map<std::string, std::string> index_;
  std::uint64_t total_size_ = 0, made_ = 0;
};

}  // namespace planesmith
