// Reads one expert's tensors and cuts them into slices of ranks.
#pragma once

#include <cstdint>
#include <vector>

#include "base/context.h"
#include "checkpoint/model.h"
#include "pipeline/shard_files.h"
#include "quant/expert_converter.h"

namespace planesmith {

class ExpertSource {
 public:
  // Reads experts for the ranks first_rank .. first_rank + ranks - 1 of the world.
  ExpertSource(const Context& context, const Checkpoint& checkpoint, const Model& model,
               const format::RankShape& shape, std::uint64_t first_rank, std::uint64_t ranks);

  std::uint64_t buffer_bytes() const { return buffer_bytes_; }  // for one expert

  // Reads an expert's weights and scales into `buffer` (buffer_bytes()).
  // Errors: a file that ends early, a scale_2 that is not finite.
  struct Loaded {
    const Expert* expert = nullptr;
    const std::uint8_t* buffer = nullptr;
    std::array<float, kProjections> scale_2{};
  };
  Loaded load(const Expert& expert, Bytes buffer) const;
  // Asks the system to read an expert ahead. Advice only.
  void prefetch(const Expert& expert) const;

  // One rank's slices of it.
  ExpertSlices slices(const Loaded& loaded, std::uint64_t rank) const;

  // Rows of one projection that are read, converted and written together.
  struct Piece {
    Projection projection;
    std::uint64_t row, rows;  // row: counted in the rows that are read
  };
  // An expert in pieces of at most so many bytes of weights where rows allow it, ordered by projection and
  // row; a piece of w1 or w3 belongs to one rank.
  std::vector<Piece> pieces(std::uint64_t weight_bytes) const;
  std::uint64_t buffer_bytes(const Piece& piece) const;
  bool concerns(const Piece& piece, std::uint64_t rank) const;  // whether the rank needs the piece
  // The piece's first row, counted in the rank's slice of the projection.
  std::uint64_t first_row(const Piece& piece) const;
  std::uint64_t scale_block_rows() const;  // rows of the weight that share a scale
  // Reads a piece into `buffer`, which has room for it. Errors: as above.
  void load(const Expert& expert, const Piece& piece, Bytes buffer) const;
  std::array<float, kProjections> load_scale_2(const Expert& expert) const;  // 0: the family has none
  Slice slice(const Piece& piece, const std::uint8_t* buffer, std::uint64_t rank, float scale_2) const;

  // Throws the Error for a non-finite element of a rank's slice: tensor, row, column, byte in the file.
  [[noreturn]] void refuse(const Expert& expert, std::uint64_t rank, const BadElement& bad) const;

 private:
  // A projection's matrices in the checkpoint, and the rows that are read.
  struct Layout {
    std::uint64_t rows, cols;  // of the whole weight
    std::uint64_t first_row, read_rows;
    std::uint64_t row_bytes;
    std::uint64_t scale_row_bytes, scale_first_row, scale_read_rows;
    std::uint64_t weight_at, scale_at;  // offsets in the buffer
  };
  const Layout& layout(std::size_t projection) const { return layouts_[projection]; }
  Slice slice(std::size_t projection, std::uint64_t rows, const std::uint8_t* weight,
              const std::uint8_t* scale, std::uint64_t rank, float scale_2) const;
  void read(const Tensor& tensor, std::uint64_t offset, Bytes to) const;
  template <typename Use>
  void for_each_range(const Expert& expert, Use use) const;

  const Checkpoint& checkpoint_;
  const Model& model_;
  const format::RankShape shape_;
  const std::uint64_t first_rank_;
  std::array<Layout, kProjections> layouts_{};
  std::uint64_t buffer_bytes_ = 0;
  const ShardFiles shards_;
};

}  // namespace planesmith
