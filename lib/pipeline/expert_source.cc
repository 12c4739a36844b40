#include "pipeline/expert_source.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/machine.h"
#include "base/size.h"
#include "format/planes.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kBufferAlignment = 4 * kKiB;

std::uint64_t weight_bytes(const Model& model, std::uint64_t cols) {
  return traits(model.family).weight_bytes(cols);
}

struct ScaleGrid {
  std::uint64_t rows, cols, element_bytes;  // weight elements per scale, and a scale's size
};
ScaleGrid scale_grid(const Model& model) {
  return {model.block_rows, model.block_cols, format::scale_size(model.scale_type)};
}

constexpr std::uint64_t divide_up(std::uint64_t n, std::uint64_t by) {
  return (n + by - 1) / by;
}

}  // namespace

ExpertSource::ExpertSource(const Context& context, const Checkpoint& checkpoint, const Model& model,
                           const format::RankShape& shape, std::uint64_t first_rank, std::uint64_t ranks)
    : checkpoint_(checkpoint),
      model_(model),
      shape_(shape),
      first_rank_(first_rank),
      shards_(context.os, checkpoint, open_files_left() / 8) {
  const ScaleGrid grid = scale_grid(model);
  for (std::size_t p = 0; p < kProjections; ++p) {
    const bool down = static_cast<Projection>(p) == Projection::w2;
    Layout& at = layouts_[p];
    at.rows = down ? model.geometry.hidden : model.geometry.intermediate;
    at.cols = down ? model.geometry.intermediate : model.geometry.hidden;
    // A rank's rows of w1 and w3 are contiguous; its columns of w2 are spread over all rows.
    at.first_row = down ? 0 : first_rank * shape.slice;
    at.read_rows = down ? at.rows : ranks * shape.slice;
    at.row_bytes = weight_bytes(model, at.cols);
    at.scale_row_bytes = divide_up(at.cols, grid.cols) * grid.element_bytes;
    at.scale_first_row = at.first_row / grid.rows;
    at.scale_read_rows = divide_up(at.read_rows, grid.rows);
    at.weight_at = buffer_bytes_;
    buffer_bytes_ += round_up(at.read_rows * at.row_bytes, kBufferAlignment);
    at.scale_at = buffer_bytes_;
    buffer_bytes_ += round_up(at.scale_read_rows * at.scale_row_bytes, kBufferAlignment);
  }
}

std::vector<ExpertSource::Piece> ExpertSource::pieces(std::uint64_t weight_bytes) const {
  std::vector<Piece> out;
  for (std::size_t p = 0; p < kProjections; ++p) {
    const Layout& at = layout(p);
    // NOLINTBEGIN(clang-analyzer-core.DivideZero): Model and Plan guarantee that blocks and slices have rows

    // Whole tiles and whole blocks; of w1 and w3, of one rank only.
    const std::uint64_t unit = std::lcm(format::kTileRows, scale_grid(model_).rows);
    const std::uint64_t most = std::max(weight_bytes / at.row_bytes / unit, std::uint64_t{1}) * unit;
    const std::uint64_t span = static_cast<Projection>(p) == Projection::w2 ? at.read_rows : shape_.slice;
    for (std::uint64_t row = 0; row < at.read_rows;) {
      const std::uint64_t rows = std::min(most, span - row % span);
      out.push_back({static_cast<Projection>(p), row, rows});
      row += rows;
    }
    // NOLINTEND(clang-analyzer-core.DivideZero)
  }
  return out;
}

std::uint64_t ExpertSource::buffer_bytes(const Piece& piece) const {
  const Layout& at = layout(static_cast<std::size_t>(piece.projection));
  return round_up(piece.rows * at.row_bytes, kBufferAlignment) +
         divide_up(piece.rows, scale_grid(model_).rows) * at.scale_row_bytes;
}

std::uint64_t ExpertSource::scale_block_rows() const {
  return scale_grid(model_).rows;
}

bool ExpertSource::concerns(const Piece& piece, std::uint64_t rank) const {
  return piece.projection == Projection::w2 || first_rank_ + piece.row / shape_.slice == rank;
}

std::uint64_t ExpertSource::first_row(const Piece& piece) const {
  return piece.projection == Projection::w2 ? piece.row : piece.row % shape_.slice;
}

// Calls use(tensor, offset in the file, bytes, offset in the buffer) for each weight and scale.
template <typename Use>
void ExpertSource::for_each_range(const Expert& expert, Use use) const {
  for (std::size_t p = 0; p < kProjections; ++p) {
    const Layout& at = layout(p);
    const ExpertTensors& tensors = expert[p];
    use(*tensors.weight, tensors.weight->offset + at.first_row * at.row_bytes, at.read_rows * at.row_bytes,
        at.weight_at);
    use(*tensors.scale, tensors.scale->offset + at.scale_first_row * at.scale_row_bytes,
        at.scale_read_rows * at.scale_row_bytes, at.scale_at);
  }
}

void ExpertSource::read(const Tensor& tensor, std::uint64_t offset, Bytes to) const {
  try {
    shards_.of(tensor)->read(to, offset);
  } catch (Error& error) {
    throw error.in_tensor(tensor.name);
  }
}

ExpertSource::Loaded ExpertSource::load(const Expert& expert, Bytes buffer) const {
  for_each_range(expert, [&](const Tensor& tensor, std::uint64_t offset, std::uint64_t bytes,
                             std::uint64_t at) { read(tensor, offset, buffer.subspan(at, bytes)); });
  return {&expert, buffer.data(), load_scale_2(expert)};
}

void ExpertSource::load(const Expert& expert, const Piece& piece, Bytes buffer) const {
  const auto p = static_cast<std::size_t>(piece.projection);
  const Layout& at = layout(p);
  const ExpertTensors& tensors = expert[p];
  const std::uint64_t grid_rows = scale_grid(model_).rows, weight_bytes = piece.rows * at.row_bytes;
  read(*tensors.weight, tensors.weight->offset + (at.first_row + piece.row) * at.row_bytes,
       buffer.first(weight_bytes));
  read(*tensors.scale,
       tensors.scale->offset + (at.scale_first_row + piece.row / grid_rows) * at.scale_row_bytes,
       buffer.subspan(round_up(weight_bytes, kBufferAlignment),
                      divide_up(piece.rows, grid_rows) * at.scale_row_bytes));
}

std::array<float, kProjections> ExpertSource::load_scale_2(const Expert& expert) const {
  std::array<float, kProjections> out{};
  for (std::size_t p = 0; p < kProjections; ++p)
    if (const Tensor* scale_2 = expert[p].scale_2) out[p] = read_scalar(*shards_.of(*scale_2), *scale_2);
  return out;
}

void ExpertSource::prefetch(const Expert& expert) const {
  for_each_range(expert, [&](const Tensor& tensor, std::uint64_t offset, std::uint64_t bytes, std::uint64_t) {
    shards_.of(tensor)->will_need(offset, bytes);
  });
}

ExpertSlices ExpertSource::slices(const Loaded& loaded, std::uint64_t rank) const {
  const ScaleGrid grid = scale_grid(model_);
  ExpertSlices out;
  for (std::size_t p = 0; p < kProjections; ++p) {
    const Layout& at = layout(p);
    const bool down = static_cast<Projection>(p) == Projection::w2;
    const std::uint64_t row = down ? 0 : (rank - first_rank_) * shape_.slice;  // in the rows read
    out[p] =
        slice(p, down ? at.rows : shape_.slice, loaded.buffer + at.weight_at + row * at.row_bytes,
              loaded.buffer + at.scale_at + row / grid.rows * at.scale_row_bytes, rank, loaded.scale_2[p]);
  }
  return out;
}

Slice ExpertSource::slice(const Piece& piece, const std::uint8_t* buffer, std::uint64_t rank,
                          float scale_2) const {
  const auto p = static_cast<std::size_t>(piece.projection);
  return slice(p, piece.rows, buffer, buffer + round_up(piece.rows * layout(p).row_bytes, kBufferAlignment),
               rank, scale_2);
}

// The rank's columns of `rows` rows, which begin at `weight` and `scale`.
Slice ExpertSource::slice(std::size_t projection, std::uint64_t rows, const std::uint8_t* weight,
                          const std::uint8_t* scale, std::uint64_t rank, float scale_2) const {
  const ScaleGrid grid = scale_grid(model_);
  const Layout& at = layout(projection);
  const bool down = static_cast<Projection>(projection) == Projection::w2;
  const std::uint64_t cols = down ? shape_.slice : at.cols, col = down ? rank * shape_.slice : 0;
  weight += weight_bytes(model_, col);
  scale += col / grid.cols * grid.element_bytes;
  return traits(model_.family)
      .slice({rows, cols, weight, at.row_bytes, scale, at.scale_row_bytes, model_.block_rows,
              model_.block_cols, model_.scale_type, scale_2});
}

void ExpertSource::refuse(const Expert& expert, std::uint64_t rank, const BadElement& bad) const {
  const ScaleGrid grid = scale_grid(model_);
  const auto p = static_cast<std::size_t>(bad.projection);
  const Layout& at = layout(p);
  const bool down = bad.projection == Projection::w2;
  const ExpertTensors& tensors = expert[p];
  const Tensor& tensor = bad.where.in_scale ? *tensors.scale : *tensors.weight;
  std::uint64_t row = bad.where.row, col = bad.where.col, byte;
  if (bad.where.in_scale) {
    if (down)
      col += rank * shape_.slice / grid.cols;
    else
      row += rank * shape_.slice / grid.rows;
    byte = row * at.scale_row_bytes + col * grid.element_bytes;
  } else {
    if (down)
      col += rank * shape_.slice;
    else
      row += rank * shape_.slice;
    byte = row * at.row_bytes + weight_bytes(model_, col);
  }
  if (bad.where.in_scale && tensors.scale_2 != nullptr &&
      read_scalar(*shards_.of(*tensors.scale_2), *tensors.scale_2) == 0)
    throw Error(checkpoint_.shard_path(tensor),
                "is NaN beside a weight_scale_2 of 0: all weights of this expert are zero, and the exporter "
                "divided 0 by 0; quantize the float weights again with repack-experts quantize, which gives "
                "such experts finite scales, or set weight_scale_2 and the scales to 1")
        .in_tensor(tensor.name)
        .at(tensor.offset + byte);
  throw Error(
      checkpoint_.shard_path(tensor),
      fmt::format("element [{}, {}] is not finite (NaN or infinity); the checkpoint is damaged", row, col))
      .in_tensor(tensor.name)
      .at(tensor.offset + byte);
}

}  // namespace planesmith
