// The families of quantized experts (FORMAT.md section 2):
// each is a row in family.cc, which holds everything about a family except its kernels.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "format/slice.h"

namespace planesmith {

enum class Family { mxfp4, fp8, nvfp4 };

// The role of a tensor in its expert's projection, by the last component of its name.
enum class Role { weight, scale, scale_2, input_scale };
inline constexpr std::size_t kRoles = 4;
struct Suffix {
  std::string_view text;
  Role role;
};
std::span<const Suffix> suffixes();  // of all families

// A slice of a weight and its scales in memory, of any family. Strides are bytes from row to row.
struct SliceView {
  std::uint64_t rows = 0, cols = 0;
  const std::uint8_t* weight = nullptr;
  std::uint64_t weight_stride = 0;
  const std::uint8_t* scale = nullptr;
  std::uint64_t scale_stride = 0;
  std::uint32_t block_rows = 1, block_cols = 1;
  ScaleType scale_type = ScaleType::e8m0;
  float scale_2 = 0;
};

struct FamilyTraits {
  Family family;
  std::string_view name;  // "MXFP4": in messages, profiles and --json
  std::span<const Dtype> weights;
  unsigned weight_bits;  // 4: e2m1, two in a byte, the even column low; 8: e4m3
  std::span<const std::string_view> scale_suffixes;
  std::span<const Dtype> scales;
  // Weights that share a scale; 0: quantization_config.weight_block_size has them.
  std::uint32_t block_rows, block_cols;
  bool has_scale_2;                  // a factor of the whole tensor, one F32
  bool requantized;                  // else nibbles and scale bytes are taken unchanged
  Slice (*slice)(const SliceView&);  // the argument of its kernel
  bool has_cache;                    // the engine reads planes caches of such models (ENGINE.md section 2)

  std::uint64_t weight_bytes(std::uint64_t cols) const { return cols * weight_bits / 8; }  // of a row
};
std::span<const FamilyTraits> families();
const FamilyTraits& traits(Family family);
std::string_view name(Family family);
std::optional<Family> family_named(std::string_view name);  // as name() says it

// Tensors of one projection of one expert, by role; null where absent.
struct ProjectionTensors {
  const Tensor* of[kRoles] = {};
  const Tensor* operator[](Role role) const { return of[static_cast<std::size_t>(role)]; }
};
// Decides by suffixes and dtypes. None: the weight or every scale is missing, or no row fits.
std::optional<Family> family_of(const ProjectionTensors& tensors);
// Describes tensors that no family has, such as "has one scale for each row (per-channel FP8)": for a refusal
// that names the weight, or the scale where `of_scale` is set. Empty: nothing is known about them.
struct Unserved {
  std::string what;
  bool of_scale = false;
};
Unserved unserved_layout(const ProjectionTensors& tensors);

// The number format of a scale's elements; none: no scale has this dtype.
std::optional<ScaleType> scale_type(Dtype dtype);
bool is_one_of(Dtype dtype, std::span<const Dtype> any);
std::string names_of(std::span<const Dtype> any);  // "I8, U8 or F4"
// The tensor shape of a weight [rows, cols]: an element of a packed dtype holds two weights.
std::vector<std::uint64_t> weight_shape(const FamilyTraits& family, Dtype dtype, std::uint64_t rows,
                                        std::uint64_t cols);

}  // namespace planesmith
