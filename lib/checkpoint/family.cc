#include "checkpoint/family.h"

#include <fmt/format.h>

#include <algorithm>

namespace planesmith {
namespace {

constexpr std::string_view kScale = "scale", kScaleInv = "weight_scale_inv", kWeightScale = "weight_scale";
constexpr Suffix kSuffixes[] = {{"weight", Role::weight},          {kScale, Role::scale},
                                {kScaleInv, Role::scale},          {kWeightScale, Role::scale},
                                {"weight_scale_2", Role::scale_2}, {"input_scale", Role::input_scale}};

Slice mxfp4_slice(const SliceView& v) {
  return Mxfp4Slice{v.rows, v.cols, v.weight, v.weight_stride, v.scale, v.scale_stride};
}
Slice fp8_slice(const SliceView& v) {
  return Fp8Slice{v.rows,         v.cols,       v.weight,     v.weight_stride, v.scale,
                  v.scale_stride, v.block_rows, v.block_cols, v.scale_type};
}
Slice nvfp4_slice(const SliceView& v) {
  return Nvfp4Slice{v.rows, v.cols, v.weight, v.weight_stride, v.scale, v.scale_stride, v.scale_2};
}

// Exporters declare e8m0 bytes and pairs of e2m1 with the dtypes that their framework has.
constexpr Dtype kPacked[] = {Dtype::i8, Dtype::u8, Dtype::f4}, kE4m3[] = {Dtype::f8_e4m3},
                kE8m0[] = {Dtype::f8_e8m0, Dtype::u8},
                kBlockScales[] = {Dtype::f32, Dtype::bf16, Dtype::f8_e8m0, Dtype::u8};
constexpr std::string_view kAnyScale[] = {kScale, kScaleInv, kWeightScale}, kGroupScale[] = {kWeightScale};

// The first row that fits counts.
constexpr FamilyTraits kFamilies[] = {
    {Family::fp8, "FP8 block", kE4m3, 8, kAnyScale, kBlockScales, 0, 0, false, true, fp8_slice, false},
    {Family::nvfp4, "NVFP4", kPacked, 4, kGroupScale, kE4m3, 1, kNvfp4Group, true, true, nvfp4_slice, true},
    {Family::mxfp4, "MXFP4", kPacked, 4, kAnyScale, kE8m0, 1, kMxfp4Group, false, false, mxfp4_slice, true},
};

bool fits(const FamilyTraits& row, const ProjectionTensors& tensors) {
  const Tensor *scale = tensors[Role::scale], *scale_2 = tensors[Role::scale_2];
  if (!is_one_of(tensors[Role::weight]->dtype, row.weights)) return false;
  if (scale == nullptr) return scale_2 != nullptr && row.has_scale_2;
  if (scale_2 != nullptr && !row.has_scale_2) return false;
  const std::string_view suffix = std::string_view(scale->name).substr(scale->name.rfind('.') + 1);
  return std::find(row.scale_suffixes.begin(), row.scale_suffixes.end(), suffix) !=
             row.scale_suffixes.end() &&
         is_one_of(scale->dtype, row.scales);
}

}  // namespace

std::span<const Suffix> suffixes() {
  return kSuffixes;
}
std::span<const FamilyTraits> families() {
  return kFamilies;
}
const FamilyTraits& traits(Family family) {
  return *std::find_if(std::begin(kFamilies), std::end(kFamilies),
                       [&](const FamilyTraits& row) { return row.family == family; });
}
std::string_view name(Family family) {
  return traits(family).name;
}
std::optional<Family> family_named(std::string_view name) {
  for (const FamilyTraits& row : kFamilies)
    if (row.name == name) return row.family;
  return std::nullopt;
}

std::optional<Family> family_of(const ProjectionTensors& tensors) {
  if (tensors[Role::weight] == nullptr) return std::nullopt;
  for (const FamilyTraits& row : kFamilies)
    if (fits(row, tensors)) return row.family;
  return std::nullopt;
}

Unserved unserved_layout(const ProjectionTensors& tensors) {
  const Tensor *weight = tensors[Role::weight], *scale = tensors[Role::scale];
  if (weight == nullptr) return {};
  const auto known = [&](const FamilyTraits& row) { return is_one_of(weight->dtype, row.weights); };
  if (std::none_of(std::begin(kFamilies), std::end(kFamilies), known)) {
    const bool plain =
        weight->dtype == Dtype::bf16 || weight->dtype == Dtype::f16 || weight->dtype == Dtype::f32;
    return {
        fmt::format("has dtype {}{}; expert weights are I8, U8 or F4 (MXFP4, NVFP4) or F8_E4M3 (FP8 block)",
                    dtype_text(*weight), plain ? ": it is not quantized yet" : "")};
  }
  if (scale == nullptr) return {};
  if (weight->dtype == Dtype::f8_e4m3 && weight->shape.size() == 2) {
    std::uint64_t elements = 1;
    for (const std::uint64_t n : scale->shape) elements *= n;
    const char* const wanted = "only FP8 with 2-D blocks of scales is converted";
    if (elements == 1)
      return {fmt::format("is one scale for the whole tensor (per-tensor FP8); {}", wanted), true};
    const std::uint64_t rows = weight->shape[0];
    if (elements == rows && !scale->shape.empty() && scale->shape[0] == rows)
      return {fmt::format("has one scale for each row (per-channel FP8); {}", wanted), true};
    if (scale->shape.size() > 2)
      return {fmt::format("has scales of {} dimensions, {}; {}", scale->shape.size(),
                          shape_text(scale->shape), wanted),
              true};
  }
  if (family_of(tensors)) return {};
  return {fmt::format("has scales of dtype {} beside weights of dtype {}, which no known family has",
                      dtype_text(*scale), dtype_text(*weight)),
          true};
}

std::optional<ScaleType> scale_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::f8_e8m0:
    case Dtype::u8:
      return ScaleType::e8m0;
    case Dtype::f8_e4m3:
      return ScaleType::e4m3;
    case Dtype::bf16:
      return ScaleType::bf16;
    case Dtype::f32:
      return ScaleType::f32;
    default:
      return std::nullopt;
  }
}

bool is_one_of(Dtype dtype, std::span<const Dtype> any) {
  return std::find(any.begin(), any.end(), dtype) != any.end();
}

std::string names_of(std::span<const Dtype> any) {
  std::string text;
  for (const Dtype& dtype : any)
    text += fmt::format("{}{}", text.empty() ? "" : &dtype == &any.back() ? " or " : ", ", name(dtype));
  return text;
}

std::vector<std::uint64_t> weight_shape(const FamilyTraits& family, Dtype dtype, std::uint64_t rows,
                                        std::uint64_t cols) {
  // Weights in an element of the tensor.
  const unsigned elements = family.weight_bits == 4 && dtype != Dtype::f4 ? 2 : 1;
  return {rows, (cols + elements - 1) / elements};
}

}  // namespace planesmith
