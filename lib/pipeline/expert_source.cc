#include "pipeline/expert_source.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/size.h"
#include "format/planes.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kBufferAlignment = 4 * kKiB;

// Bytes per element of a weight, in halves: FP4 families hold two elements in a byte.
std::uint64_t weight_bytes(const Model& model, std::uint64_t cols) {
  return model.family == Family::fp8 ? cols : cols / 2;
}

struct ScaleGrid {
  std::uint64_t rows, cols, element_bytes;  // weight elements per scale, and a scale's size
};
ScaleGrid scale_grid(const Model& model) {
  switch (model.family) {
    case Family::mxfp4: return {1, 32, 1};
    case Family::nvfp4: return {1, 16, 1};
    case Family::fp8: return {model.block_rows, model.block_cols, model.scale_is_e8m0 ? 1u : 4u};
  }
  return {};
}

constexpr std::uint64_t divide_up(std::uint64_t n, std::uint64_t by) { return (n + by - 1) / by; }

}  // namespace

ExpertSource::ExpertSource(const Context& context, const Checkpoint& checkpoint, const Model& model,
                           const format::RankShape& shape, std::uint64_t first_rank, std::uint64_t ranks)
    : context_(context),
      checkpoint_(checkpoint),
      model_(model),
      shape_(shape),
      first_rank_(first_rank),
      shards_(checkpoint.shards().size()) {
  const ScaleGrid grid = scale_grid(model);
  for (std::size_t p = 0; p < kProjections; ++p) {
    const bool down = static_cast<Projection>(p) == Projection::w2;
    Layout& at = layouts_[p];
    at.rows = down ? model.geometry.hidden : model.geometry.intermediate;
    at.cols = down ? model.geometry.intermediate : model.geometry.hidden;
    // A rank's rows of w1 and w3 lie together; its columns of w2 are spread over all rows.
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

const File& ExpertSource::shard(const Tensor& tensor) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::unique_ptr<File>& file = shards_[tensor.shard];
  if (!file) file = std::make_unique<File>(File::open_read(context_.os, checkpoint_.shard_path(tensor)));
  return *file;
}

// use(tensor, offset in the file, bytes, place in the buffer) for each weight and scale.
template <typename Use>
void ExpertSource::for_each_range(const Expert& expert, Use use) const {
  for (std::size_t p = 0; p < kProjections; ++p) {
    const Layout& at = layout(p);
    const ExpertTensors& tensors = expert[p];
    use(*tensors.weight, tensors.weight->offset + at.first_row * at.row_bytes, at.read_rows * at.row_bytes, at.weight_at);
    use(*tensors.scale, tensors.scale->offset + at.scale_first_row * at.scale_row_bytes,
        at.scale_read_rows * at.scale_row_bytes, at.scale_at);
  }
}

ExpertSource::Loaded ExpertSource::load(const Expert& expert, Bytes buffer) const {
  Loaded loaded{&expert, buffer.data(), {}};
  for_each_range(expert, [&](const Tensor& tensor, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
    try {
      shard(tensor).read(buffer.subspan(at, bytes), offset);
    } catch (Error& error) {
      throw error.in_tensor(tensor.name);
    }
  });
  for (std::size_t p = 0; p < kProjections; ++p) {
    const Tensor* scale_2 = expert[p].scale_2;
    if (scale_2 == nullptr) continue;
    std::array<std::uint8_t, 4> raw;
    shard(*scale_2).read(raw, scale_2->offset);
    std::memcpy(&loaded.scale_2[p], raw.data(), raw.size());
    if (!std::isfinite(loaded.scale_2[p]))
      throw Error(checkpoint_.shard_path(*scale_2), "the scale is not finite; the checkpoint is damaged")
          .in_tensor(scale_2->name)
          .at(scale_2->offset);
  }
  return loaded;
}

void ExpertSource::prefetch(const Expert& expert) const {
  for_each_range(expert, [&](const Tensor& tensor, std::uint64_t offset, std::uint64_t bytes, std::uint64_t) {
    shard(tensor).will_need(offset, bytes);
  });
}

ExpertSlices ExpertSource::slices(const Loaded& loaded, std::uint64_t rank) const {
  const ScaleGrid grid = scale_grid(model_);
  ExpertSlices out;
  for (std::size_t p = 0; p < kProjections; ++p) {
    const Layout& at = layout(p);
    const bool down = static_cast<Projection>(p) == Projection::w2;
    const std::uint64_t rows = down ? at.rows : shape_.slice, cols = down ? shape_.slice : at.cols;
    const std::uint64_t row = down ? 0 : (rank - first_rank_) * shape_.slice;  // within what was read
    const std::uint64_t col = down ? rank * shape_.slice : 0;
    const std::uint8_t* weight = loaded.buffer + at.weight_at + row * at.row_bytes + weight_bytes(model_, col);
    const std::uint8_t* scale = loaded.buffer + at.scale_at + row / grid.rows * at.scale_row_bytes +
                                col / grid.cols * grid.element_bytes;
    switch (model_.family) {
      case Family::mxfp4:
        out[p] = Mxfp4Slice{rows, cols, weight, at.row_bytes, scale, at.scale_row_bytes};
        break;
      case Family::fp8:
        out[p] = Fp8Slice{rows, cols, weight, at.row_bytes, scale, at.scale_row_bytes,
                          model_.block_rows, model_.block_cols, model_.scale_is_e8m0};
        break;
      case Family::nvfp4:
        out[p] = Nvfp4Slice{rows, cols, weight, at.row_bytes, scale, at.scale_row_bytes, loaded.scale_2[p]};
        break;
    }
  }
  return out;
}

void ExpertSource::refuse(const Loaded& loaded, std::uint64_t rank, const BadElement& bad) const {
  const ScaleGrid grid = scale_grid(model_);
  const auto p = static_cast<std::size_t>(bad.projection);
  const Layout& at = layout(p);
  const bool down = bad.projection == Projection::w2;
  const ExpertTensors& tensors = (*loaded.expert)[p];
  const Tensor& tensor = bad.where.in_scale ? *tensors.scale : *tensors.weight;
  std::uint64_t row = bad.where.row, col = bad.where.col, byte;
  if (bad.where.in_scale) {
    if (down) col += rank * shape_.slice / grid.cols;
    else row += rank * shape_.slice / grid.rows;
    byte = row * at.scale_row_bytes + col * grid.element_bytes;
  } else {
    if (down) col += rank * shape_.slice;
    else row += rank * shape_.slice;
    byte = row * at.row_bytes + weight_bytes(model_, col);
  }
  throw Error(checkpoint_.shard_path(tensor),
              fmt::format("element [{}, {}] is not finite (NaN or infinity); the checkpoint is damaged", row, col))
      .in_tensor(tensor.name)
      .at(tensor.offset + byte);
}

}  // namespace planesmith
