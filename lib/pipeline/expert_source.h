// One expert's tensors in memory, and what a rank sees of them.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/context.h"
#include "checkpoint/model.h"
#include "quant/backend.h"

namespace planesmith {

class ExpertSource {
 public:
  // Reads experts for the ranks first_rank .. first_rank + ranks - 1 of the world.
  ExpertSource(const Context& context, const Checkpoint& checkpoint, const Model& model, const format::RankShape& shape,
               std::uint64_t first_rank, std::uint64_t ranks);

  std::uint64_t buffer_bytes() const { return buffer_bytes_; }  // for one expert

  // Reads an expert's weights and scales into buffer. Errors: a file that ends early, a scale_2 that is not finite.
  struct Loaded {
    const Expert* expert = nullptr;
    const std::uint8_t* buffer = nullptr;
    std::array<float, kProjections> scale_2{};
  };
  Loaded load(const Expert& expert, Bytes buffer) const;
  // Asks the system to read an expert ahead. Advice only.
  void prefetch(const Expert& expert) const;

  // What one of the ranks sees of it.
  ExpertSlices slices(const Loaded& loaded, std::uint64_t rank) const;

  // The error that names a non-finite element: tensor, row and column, byte in the file.
  [[noreturn]] void refuse(const Loaded& loaded, std::uint64_t rank, const BadElement& bad) const;

 private:
  // A projection's matrices as they stand in the checkpoint, and the rows that are read.
  struct Layout {
    std::uint64_t rows, cols;                // of the whole weight
    std::uint64_t first_row, read_rows;
    std::uint64_t row_bytes;
    std::uint64_t scale_row_bytes, scale_first_row, scale_read_rows;
    std::uint64_t weight_at, scale_at;       // in the buffer
  };
  const Layout& layout(std::size_t projection) const { return layouts_[projection]; }
  const File& shard(const Tensor& tensor) const;
  template <typename Use>
  void for_each_range(const Expert& expert, Use use) const;

  const Context& context_;
  const Checkpoint& checkpoint_;
  const Model& model_;
  const format::RankShape shape_;
  const std::uint64_t first_rank_;
  std::array<Layout, kProjections> layouts_{};
  std::uint64_t buffer_bytes_ = 0;
  mutable std::mutex mutex_;  // guards opening
  mutable std::vector<std::unique_ptr<File>> shards_;
};

}  // namespace planesmith
