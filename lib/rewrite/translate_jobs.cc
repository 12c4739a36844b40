#include "rewrite/translate_jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "format/number.h"
#include "format/slice.h"

namespace planesmith {
namespace {

constexpr int kReach = 17;                    // exponents from 2^8 down to e4m3's smallest, 2^-9
constexpr std::uint64_t kBlockBytes = 16;     // packed nibbles of a block
constexpr std::uint64_t kBlocks = 16 * kKiB;  // blocks at a time

// 2^(8 - below) as e4m3, for below = 0 .. 17.
std::uint8_t power_as_e4m3(int below) {
  const int exponent = 8 - below;
  return static_cast<std::uint8_t>(exponent >= -6 ? (exponent + 7) << 3 : 1 << (exponent + 9));
}

bool all_zero(const std::uint8_t* nibbles) {
  return std::all_of(nibbles, nibbles + kBlockBytes, [](std::uint8_t b) { return (b & 0x77) == 0; });
}

}  // namespace

Place place_of(const Checkpoint& checkpoint, const View& view) {
  return place_of(checkpoint, *view.tensor, view.offset);
}

WidenJob::WidenJob(std::string name, std::vector<std::uint64_t> shape, Place from, FloatType type)
    : Job({{std::move(name), Dtype::f32, std::move(shape)}}), from_(from), type_(type) {}

void WidenJob::run(std::size_t, JobIo& io) const {
  const std::uint64_t count = size_of(makes()[0]) / 4, width = bytes_of(type_), step = JobIo::kPieceBytes / 4;
  for (std::uint64_t first = 0; first < count; first += step) {
    const std::uint64_t n = std::min(step, count - first);
    const Bytes piece = io.piece().first(n * width), out = io.out().first(n * 4);
    io.read(from_, first * width, piece);
    for (std::uint64_t i = 0; i < n; ++i) {
      const float value = value_at({piece.data(), type_, n}, i);
      std::memcpy(&out[4 * i], &value, 4);
    }
    io.put(0, first * 4, out);
  }
}

ReciprocalJob::ReciprocalJob(std::string name, const std::string& tensor, Place from, FloatType type)
    : Job({{std::move(name), Dtype::f32, {}}}), tensor_(tensor), from_(from), type_(type) {}

void ReciprocalJob::run(std::size_t, JobIo& io) const {
  const Bytes piece = io.piece().first(bytes_of(type_));
  io.read(from_, 0, piece);
  io.put_f32(0, reciprocal(value_at({piece.data(), type_, 1}, 0), *from_.path, tensor_));
}

float reciprocal(float x, const std::string& path, const std::string& tensor) {
  const float result = 1.f / x;
  if (!std::isfinite(x) || !std::isfinite(result))
    throw Error(
        path,
        fmt::format("element 0 is {}; a finite scale whose reciprocal is finite was expected{}", x,
                    !std::isinf(x) ? ""
                    : tensor.ends_with(".input_global_scale")
                        ? ": the quantizer divided by 0, as no input of this module was other than zero; "
                          "calibrate with samples that reach all experts"
                        : ": the quantizer divided by 0, so all weights of this module are "
                          "zero; repack-experts quantize gives such experts finite scales"))
        .in_tensor(tensor);
  return result;
}

CastJob::CastJob(const Checkpoint& checkpoint, std::vector<const QuantModule*> modules, bool lossy)
    : Job(tensors_of(modules)), modules_(std::move(modules)), lossy_(lossy) {
  for (const QuantModule* module : modules_) {
    weights_.push_back(place_of(checkpoint, module->weight()));
    scales_.push_back(place_of(checkpoint, module->scale()));
  }
}

std::vector<NewTensor> CastJob::tensors_of(const std::vector<const QuantModule*>& modules) {
  std::vector<NewTensor> out;
  for (const QuantModule* m : modules) {
    out.push_back({m->name + ".weight", Dtype::u8, {m->rows, m->cols / 2}});
    out.push_back({m->name + ".weight_scale", Dtype::f8_e4m3, {m->rows, m->cols / kNvfp4Group}});
    out.push_back({m->name + ".weight_scale_2", Dtype::f32, {}});
    if (m->activations) out.push_back({m->name + ".input_scale", Dtype::f32, {}});
  }
  return out;
}

int CastJob::largest_exponent(JobIo& io) const {
  int most = 0;
  for (std::size_t m = 0; m < modules_.size(); ++m) {
    const std::uint64_t size = modules_[m]->scale().size;
    for (std::uint64_t first = 0; first < size; first += JobIo::kPieceBytes) {
      const Bytes piece = io.piece().first(std::min(JobIo::kPieceBytes, size - first));
      io.read(scales_[m], first, piece);
      const auto largest = std::max_element(piece.begin(), piece.end());
      if (format::e8m0_is_nan(*largest))
        throw Error(*scales_[m].path,
                    fmt::format("element {} is NaN; a finite scale was expected",
                                first + static_cast<std::uint64_t>(largest - piece.begin())))
            .in_tensor(modules_[m]->scale().tensor->name)
            .at(scales_[m].offset + first + static_cast<std::uint64_t>(largest - piece.begin()));
      most = std::max<int>(most, *largest);
    }
  }
  return most;
}

void CastJob::refuse_out_of_reach(JobIo& io) const {
  const int most = largest_exponent(io);
  for (std::size_t m = 0; m < modules_.size(); ++m) {
    const std::uint64_t count = modules_[m]->scale().size;
    std::uint64_t outside = 0;
    for (std::uint64_t first = 0; first < count; first += JobIo::kPieceBytes) {
      const Bytes in = io.piece().first(std::min(JobIo::kPieceBytes, count - first)),
                  block = io.out().first(kBlockBytes);
      io.read(scales_[m], first, in);
      for (std::uint64_t i = 0; i < in.size(); ++i) {
        if (most - in[i] <= kReach) continue;
        io.read(weights_[m], (first + i) * kBlockBytes, block);
        outside += !all_zero(block.data());
      }
    }
    if (outside != 0)
      throw Error(*scales_[m].path, fmt::format("{} of its {} blocks are more than 2^{} below the largest, "
                                                "beyond the range of NVFP4's scales; --lossy rounds them",
                                                outside, count, kReach))
          .in_tensor(modules_[m]->scale().tensor->name);
  }
}

void CastJob::run(std::size_t, JobIo& io) const {
  const int most = largest_exponent(io);
  std::size_t tensor = 0;
  for (std::size_t m = 0; m < modules_.size(); ++m) {
    convert(io, m, tensor, most);
    io.put_f32(tensor + 2, static_cast<float>(format::power_of_two(most - 127 - 8)));
    if (modules_[m]->activations) io.put_f32(tensor + 3, 1);
    tensor += modules_[m]->activations ? 4 : 3;
  }
}

void CastJob::convert(JobIo& io, std::size_t m, std::size_t first_tensor, int most) const {
  const std::uint64_t count = modules_[m]->scale().size;
  const auto scale_2 = static_cast<float>(format::power_of_two(most - 127 - 8));
  for (std::uint64_t first = 0; first < count; first += kBlocks) {
    const std::uint64_t n = std::min(kBlocks, count - first);
    const Bytes nibbles = io.piece().first(n * kBlockBytes), in = io.piece().subspan(n * kBlockBytes, n),
                out = io.out().first(2 * n);
    io.read(weights_[m], first * kBlockBytes, nibbles);
    io.read(scales_[m], first, in);
    for (std::uint64_t i = 0; i < n; ++i) {
      const int below = most - in[i];
      std::uint8_t* const block = &nibbles[i * kBlockBytes];
      out[2 * i] = out[2 * i + 1] = power_as_e4m3(std::min(below, kReach));
      if (below <= kReach || all_zero(block) || !lossy_) continue;
      for (int half = 0; half < 2; ++half) {
        float values[kNvfp4Group];
        for (unsigned c = 0; c < kNvfp4Group; ++c)
          values[c] = static_cast<float>(format::twice_value(format::nibble_at(block + 8 * half, c)) *
                                         format::power_of_two(in[i] - 128));
        std::uint32_t packed[kNvfp4Group / 8];
        out[2 * i + static_cast<unsigned>(half)] = nvfp4_group(values, scale_2, packed);
        std::memcpy(block + 8 * half, packed, sizeof packed);
      }
    }
    io.put(first_tensor, first * kBlockBytes, nibbles);
    io.put(first_tensor + 1, 2 * first, out);
  }
}

}  // namespace planesmith
