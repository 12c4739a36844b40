#include "quant/plane_layout.h"

#include "base/size.h"
#include "format/planes.h"

namespace planesmith {

std::uint64_t plane_bytes(Plane plane, std::uint64_t rows, std::uint64_t cols) {
  switch (plane) {
    case Plane::codes:
      return format::code_bytes(rows, cols);
    case Plane::nibbles:
      return format::nibble_bytes(rows, cols);
    case Plane::quintals:
      return format::quintal_bytes(rows, cols);
    case Plane::scales:
      break;
  }
  return format::scale_bytes(rows, cols);
}

PlaneLayout::PlaneLayout(const PlaneSet& wanted, std::uint64_t rows, std::uint64_t cols) : wanted_(wanted) {
  for (const Plane plane : kPlanes) {
    if (!wanted[plane]) continue;
    at_[plane] = end_;
    bytes_[plane] = plane_bytes(plane, rows, cols);
    end_ += round_up(bytes_[plane], 4 * kKiB);
  }
}

PlaneLayout::PlaneLayout(const PlaneSet& wanted, const Slice& slice)
    : PlaneLayout(std::visit([&](const auto& s) { return PlaneLayout(wanted, s.rows, s.cols); }, slice)) {}

PlaneTarget PlaneLayout::target(std::uint8_t* buffer) const {
  const auto at = [&](Plane plane) { return wanted_[plane] ? buffer + at_[plane] : nullptr; };
  return {at(Plane::codes), at(Plane::nibbles), at(Plane::quintals), at(Plane::scales)};
}

}  // namespace planesmith
