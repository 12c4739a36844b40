#include "fidelity/requantize.h"

namespace planesmith {

bool requantize(const Kernels& kernels, const Slice& slice, Bytes plane, ZeroModes& modes, ZeroCount& zeros) {
  PlaneTarget target;
  target.nibbles = plane.data();
  const std::uint64_t bytes = std::visit([](const auto& s) { return s.rows * s.cols / 2; }, slice);
  const auto count = [&](ZeroSigns signs, Counts& counts, ZeroCount* counted) {
    counts = {};
    if (!convert_slice(kernels, slice, signs, target, counted)) return false;
    // The order of the plane does not matter for a histogram.
    kernels.histogram(plane.data(), bytes, counts.data());
    return true;
  };
  return count(ZeroSigns::keep, modes.sign, &zeros) && count(ZeroSigns::alternate, modes.alt, nullptr);
}

void choose_modes(const std::array<ZeroCount, kProjections>& zeros,
                  std::array<ZeroModes, kProjections>& modes) {
  constexpr auto w1 = static_cast<std::size_t>(Projection::w1), w3 = static_cast<std::size_t>(Projection::w3),
                 w2 = static_cast<std::size_t>(Projection::w2);
  ZeroCount first = zeros[w1];
  first += zeros[w3];
  modes[w1].automatic_is_alt = modes[w3].automatic_is_alt = one_signed(first);
  modes[w2].automatic_is_alt = one_signed(zeros[w2]);
}

}  // namespace planesmith
