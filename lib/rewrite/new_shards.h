// The shards of a checkpoint that is written anew: which tensors are taken over, which are made, and where
// each byte of each new shard goes, all known before the first write.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "repack/repack_plan.h"
#include "rewrite/job.h"

namespace planesmith {

// A shard that comes out larger is cut into several; what Hugging Face's tools aim at, too.
inline constexpr std::uint64_t kMostShardBytes = 5'000'000'000;

struct NewShard {
  RepackFile file;     // name, bytes, and how many tensors were made anew; no tasks
  std::string header;  // with its length; empty: not a shard but a file that is copied
  struct Work {
    const Job* job;
    std::vector<std::uint64_t> offsets;  // in the file, of each tensor that the job makes
  };
  std::vector<Work> work;
};

class NewShards {
 public:
  explicit NewShards(const Checkpoint& checkpoint) : checkpoint_(checkpoint) {}

  // The tensor is not taken over; its shard is written anew.
  void replace(const Tensor& tensor);
  // The job's tensors go into this shard (of the source, or a new one).
  void add(const std::string& shard, std::unique_ptr<Job> job);
  void add(const Tensor& beside, std::unique_ptr<Job> job) {
    add(checkpoint_.shards()[beside.shard].name, std::move(job));
  }

  // Shards of the source in which nothing changes.
  std::vector<std::string> untouched() const;
  // The others. Tensors that are not replaced are copied. Call once. Error: two tensors of one name, with
  // the source's untouched ones counted.
  std::vector<NewShard> lay_out();
  // After lay_out(): shard by tensor name, all tensors of the new checkpoint, and their bytes.
  const std::map<std::string, std::string>& index() const { return index_; }
  std::uint64_t total_size() const { return total_size_; }
  std::uint64_t made() const { return made_; }  // tensors that jobs of add() make

 private:
  void lay_out(const std::string& name, std::vector<NewShard>& out);
  void list(const std::string& tensor, const std::string& shard, std::uint64_t bytes);

  const Checkpoint& checkpoint_;
  std::map<std::string, std::vector<std::unique_ptr<Job>>> groups_;  // by shard
  std::vector<std::unique_ptr<Job>> copies_;
  std::set<const Tensor*> replaced_;
  std::map<std::string, std::string> index_;
  std::uint64_t total_size_ = 0, made_ = 0;
};

}  // namespace planesmith
