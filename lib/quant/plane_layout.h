// The planes that are made of a slice, and where they lie in one buffer.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include "base/file.h"
#include "quant/kernels.h"

namespace planesmith {

enum class Plane : std::uint8_t { codes, nibbles, quintals, scales };
inline constexpr Plane kPlanes[] = {Plane::codes, Plane::nibbles, Plane::quintals, Plane::scales};

template <typename Value>
class PerPlane {
 public:
  Value& operator[](Plane plane) { return values_[static_cast<std::size_t>(plane)]; }
  const Value& operator[](Plane plane) const { return values_[static_cast<std::size_t>(plane)]; }
  bool operator==(const PerPlane&) const = default;

 private:
  std::array<Value, std::size(kPlanes)> values_{};
};
using PlaneSet = PerPlane<bool>;

// Bytes of a plane of rows x cols.
std::uint64_t plane_bytes(Plane plane, std::uint64_t rows, std::uint64_t cols);

// The wanted planes one behind the other, in the order of Plane, each on a page. Bytes between them are
// unspecified.
class PlaneLayout {
 public:
  PlaneLayout(const PlaneSet& wanted, std::uint64_t rows, std::uint64_t cols);
  PlaneLayout(const PlaneSet& wanted, const Slice& slice);

  std::uint64_t bytes() const { return end_; }
  PlaneTarget target(std::uint8_t* buffer) const;
  ConstBytes plane(Plane plane, ConstBytes buffer) const { return buffer.subspan(at_[plane], bytes_[plane]); }

 private:
  PlaneSet wanted_;
  PerPlane<std::uint64_t> at_, bytes_;
  std::uint64_t end_ = 0;
};

}  // namespace planesmith
