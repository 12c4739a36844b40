// translate --gate: dequantizes both checkpoints in float64, as the engine would, and compares them element
// by element. It reads the finished files, and shares only find_modules() with the jobs that wrote them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/parallel.h"
#include "format/number.h"
#include "format/slice.h"
#include "rewrite/float_experts.h"
#include "rewrite/translate.h"
#include "rewrite/translate_jobs.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kBuffer = 256 * kKiB;

bool compared_by_value(Scheme scheme) {
  return scheme == Scheme::nvfp4 || scheme == Scheme::mxfp4 || scheme == Scheme::fp8_block;
}

std::vector<std::uint8_t> bytes_of(const Context& context, const Checkpoint& checkpoint, const View& view,
                                   std::uint64_t at, std::uint64_t size) {
  std::vector<std::uint8_t> bytes(size);
  File::open_read(context.os, checkpoint.shard_path(*view.tensor))
      .read(bytes, view.tensor->offset + view.offset + at);
  return bytes;
}

// A scalar of any float type, as translate widens it.
float scalar_of(const Context& context, const Checkpoint& checkpoint, const View& view) {
  const FloatType type = float_type(checkpoint, view);
  const std::vector<std::uint8_t> bytes = bytes_of(context, checkpoint, view, 0, bytes_of(type));
  return value_at({bytes.data(), type, 1}, 0);
}

// The values of one side of the comparison, a few rows at a time.
class Side {
 public:
  Side(const Context& context, const Checkpoint& checkpoint, const QuantModule& module)
      : module_(module),
        weight_file_(File::open_read(context.os, checkpoint.shard_path(*module.weight().tensor))),
        scale_file_(File::open_read(context.os, checkpoint.shard_path(*module.scale().tensor))),
        scale_(module.scale().size) {
    const View& scale = module.scale();
    scale_file_.read(scale_, scale.tensor->offset + scale.offset);
    if (module.scheme == Scheme::nvfp4) scale_2_ = read_scale_2(context, checkpoint);
  }

  void read(std::uint64_t row, std::uint64_t rows, std::vector<double>& values) {
    const View& weight = module_.weight();
    const std::uint64_t row_bytes = weight.size / module_.rows;
    bytes_.resize(rows * row_bytes);
    weight_file_.read(bytes_, weight.tensor->offset + weight.offset + row * row_bytes);
    values.resize(rows * module_.cols);
    for (std::uint64_t r = 0; r < rows; ++r)
      for (std::uint64_t c = 0; c < module_.cols; ++c)
        values[r * module_.cols + c] = value(&bytes_[r * row_bytes], row + r, c);
  }

 private:
  double read_scale_2(const Context& context, const Checkpoint& checkpoint) const {
    const View* view = module_.part({"weight_scale_2", "weight_global_scale"});
    if (view == nullptr)
      throw Error(checkpoint.directory(),
                  fmt::format("'{}' has neither weight_scale_2 nor weight_global_scale", module_.name));
    const float x = scalar_of(context, checkpoint, *view);
    return module_.part("weight_scale_2") != nullptr
               ? x
               : reciprocal(x, checkpoint.shard_path(*view->tensor), view->tensor->name);
  }

  double value(const std::uint8_t* row_bytes, std::uint64_t row, std::uint64_t col) const {
    const double e2m1 = format::twice_value(format::nibble_at(row_bytes, col)) / 2.;
    switch (module_.scheme) {
      case Scheme::nvfp4:
        return e2m1 * format::e4m3_value(scale_[row * (module_.cols / kNvfp4Group) + col / kNvfp4Group]) *
               scale_2_;
      case Scheme::mxfp4:
        return e2m1 * format::e8m0_value(scale_[row * (module_.cols / kMxfp4Group) + col / kMxfp4Group]);
      default:
        return format::e4m3_value(row_bytes[col]) * block_scale(row, col);
    }
  }
  double block_scale(std::uint64_t row, std::uint64_t col) const {
    const std::uint64_t in_row = (module_.cols + module_.block_cols - 1) / module_.block_cols;
    const std::uint64_t i = row / module_.block_rows * in_row + col / module_.block_cols;
    switch (module_.scale().dtype()) {
      case Dtype::bf16:
        return value_at({scale_.data(), FloatType::bf16, i + 1}, i);
      case Dtype::f16:
        return value_at({scale_.data(), FloatType::f16, i + 1}, i);
      case Dtype::f32:
        return value_at({scale_.data(), FloatType::f32, i + 1}, i);
      default:
        return format::e8m0_value(scale_[i]);
    }
  }

  const QuantModule& module_;
  File weight_file_, scale_file_;
  std::vector<std::uint8_t> scale_, bytes_;
  double scale_2_ = 1;
};

class Comparison {
 public:
  Comparison(const Context& context, const std::string& source, const std::string& target)
      : context_(context),
        source_(Checkpoint::open(context, source)),
        target_(Checkpoint::open(context, target)),
        source_recipe_(read_recipe(context.os, source, source_.config())),
        target_recipe_(read_recipe(context.os, target, target_.config())),
        here_(find_modules(source_, source_recipe_)),
        there_(find_modules(target_, target_recipe_)) {
    for (const QuantModule& module : there_.quantized) by_name_[module.name] = &module;
  }

  TranslateGate run() && {
    std::uint64_t total = 0;
    for (const QuantModule& module : here_.quantized) total += module.weight().size;
    for (const Tensor* tensor : here_.others) total += tensor->size;
    context_.progress.begin("gate", total);
    parallel_for(here_.quantized.size(), context_.threads,
                 [&](std::size_t i, int) { compare(here_.quantized[i]); });
    parallel_for(here_.others.size(), context_.threads,
                 [&](std::size_t i, int) { compare(*here_.others[i]); });
    context_.progress.end();
    std::sort(result_.differences.begin(), result_.differences.end());
    return std::move(result_);
  }

 private:
  void differ(std::string what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    result_.differences.push_back(std::move(what));
  }

  void compare(const QuantModule& here) {
    context_.check_stop();
    const auto at = by_name_.find(here.name);
    if (at == by_name_.end())
      return differ(fmt::format("'{}' is missing or not quantized in the target", here.name));
    const QuantModule& there = *at->second;
    if (here.rows != there.rows || here.cols != there.cols)
      return differ(fmt::format("'{}' is {} x {}, in the target {} x {}", here.name, here.rows, here.cols,
                                there.rows, there.cols));
    if (!same_input_scale(here, there))
      return differ(fmt::format("'{}' has a different input scale in the target", here.name));
    if (!compared_by_value(here.scheme) || !compared_by_value(there.scheme))
      return compare_parts(here, there);
    Side left(context_, source_, here), right(context_, target_, there);
    std::vector<double> a, b;
    const std::uint64_t step = std::max<std::uint64_t>(1, kBuffer / (8 * here.cols));
    for (std::uint64_t row = 0; row < here.rows; row += step) {
      context_.check_stop();
      const std::uint64_t rows = std::min(step, here.rows - row);
      left.read(row, rows, a);
      right.read(row, rows, b);
      for (std::uint64_t i = 0; i < a.size(); ++i)
        if (a[i] != b[i])
          return differ(fmt::format("'{}': element [{}, {}] is {} in the source and {} in the target",
                                    here.name, row + i / here.cols, i % here.cols, a[i], b[i]));
      context_.progress.advance(rows * (here.weight().size / here.rows));
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ++result_.modules;
    result_.elements += here.rows * here.cols;
  }

  float scale_of(const Checkpoint& checkpoint, const QuantModule& module) const {
    const View* view = module.part({"input_scale", "input_global_scale"});
    const float x = scalar_of(context_, checkpoint, *view);
    return module.part("input_scale") != nullptr ? x : 1.f / x;
  }
  bool same_input_scale(const QuantModule& here, const QuantModule& there) const {
    if (here.part({"input_scale", "input_global_scale"}) == nullptr) return true;
    if (there.part({"input_scale", "input_global_scale"}) == nullptr) return false;
    return scale_of(source_, here) == scale_of(target_, there);
  }

  void compare_parts(const QuantModule& here, const QuantModule& there) {
    for (const auto& [word, view] : here.parts) {
      const View* other = there.part(word);
      if (other == nullptr || !same_bytes(view, *other))
        return differ(fmt::format("'{}.{}' differs", here.name, word));
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    ++result_.modules;
    result_.elements += here.rows * here.cols;
  }

  bool same_bytes(const View& a, const View& b) const {
    if (a.dtype() != b.dtype() || a.shape != b.shape || a.size != b.size) return false;
    for (std::uint64_t at = 0; at < a.size; at += kBuffer) {
      context_.check_stop();
      const std::uint64_t n = std::min(kBuffer, a.size - at);
      if (bytes_of(context_, source_, a, at, n) != bytes_of(context_, target_, b, at, n)) return false;
      context_.progress.advance(n);
    }
    return true;
  }

  void compare(const Tensor& tensor) {
    const Tensor* other = target_.find(tensor.name);
    if (other == nullptr) return differ(fmt::format("'{}' is missing in the target", tensor.name));
    if (!same_bytes({&tensor, 0, tensor.size, tensor.shape}, {other, 0, other->size, other->shape}))
      return differ(fmt::format("'{}' differs", tensor.name));
    const std::lock_guard<std::mutex> lock(mutex_);
    ++result_.tensors;
  }

  const Context& context_;
  const Checkpoint source_, target_;
  const QuantRecipe source_recipe_, target_recipe_;
  const Modules here_, there_;
  std::map<std::string, const QuantModule*> by_name_;
  std::mutex mutex_;
  TranslateGate result_;
};

}  // namespace

TranslateGate compare_translated(const Context& context, const std::string& source,
                                 const std::string& target) {
  return Comparison(context, source, target).run();
}

}  // namespace planesmith
