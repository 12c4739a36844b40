// A unit of work in rewriting a checkpoint: it makes one tensor, or several that belong together.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "quant/backend.h"

namespace planesmith {

struct NewTensor {
  std::string name;
  Dtype dtype = Dtype::other;
  std::vector<std::uint64_t> shape;
  std::string dtype_text{};  // only where dtype is `other`
  std::uint64_t bytes = 0;   // 0: follows from dtype and shape
};
std::uint64_t size_of(const NewTensor& tensor);

// Where bytes are in a shard of a source.
struct Place {
  const std::string* path = nullptr;  // of the shard; owned by the Checkpoint
  std::uint64_t offset = 0;           // from the start of the file
};
Place place_of(const Checkpoint& checkpoint, const Tensor& tensor, std::uint64_t offset = 0);

// What a job works with: reads sources, writes its tensors, has scratch memory. One per worker.
class JobIo {
 public:
  static constexpr std::uint64_t kPieceBytes = 512 * kKiB;  // most that is read at a time
  static constexpr std::uint64_t kScratchBytes = 2 * kPieceBytes;

  // worker: the number of the thread that it is for.
  JobIo(const Context& context, Backend& backend, int worker)
      : context_(context), backend_(backend), worker_(worker) {}
  virtual ~JobIo() = default;

  void read(const Place& from, std::uint64_t skip, Bytes to);
  // Writes bytes of the job's tensor number `tensor`, starting at `offset` in it; in any order.
  virtual void put(std::size_t tensor, std::uint64_t offset, ConstBytes bytes) = 0;
  void put_f32(std::size_t tensor, float value);

  Bytes piece() { return room().first(kPieceBytes); }
  Bytes out() { return room().subspan(kPieceBytes); }
  const Context& context() const { return context_; }
  Quantizer& quantizer();
  Bytes room();  // both of them

 private:
  const Context& context_;
  Backend& backend_;
  const int worker_;
  std::unique_ptr<Buffer> room_;
  std::unique_ptr<Quantizer> quantizer_;
  const std::string* open_path_ = nullptr;
  std::optional<File> file_;
};

class Job {
 public:
  explicit Job(std::vector<NewTensor> makes) : makes_(std::move(makes)) {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  const std::vector<NewTensor>& makes() const { return makes_; }

  // Parts may run in any order, concurrently and repeatedly.
  virtual std::size_t parts() const { return 1; }
  virtual void run(std::size_t part, JobIo& io) const = 0;

 private:
  std::vector<NewTensor> makes_;
};

// Copies bytes unchanged, possibly under another name or with another shape.
class CopyJob : public Job {
 public:
  CopyJob(NewTensor makes, Place from);
  std::size_t parts() const override;
  void run(std::size_t part, JobIo& io) const override;

 private:
  Place from_;
  std::uint64_t size_;
};

}  // namespace planesmith
