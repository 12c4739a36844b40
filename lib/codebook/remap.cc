#include "codebook/remap.h"

namespace planesmith {

Remapper::Remapper(Granularity granularity, int levels, const Kernels& kernels)
    : granularity_(granularity), levels_(levels), kernels_(kernels) {
  check_levels(granularity, levels);
  if (granularity == Granularity::block32 && levels < kGridLevels) blocks_.emplace(levels, kernels.name);
}

void Remapper::count(ConstBytes piece, Counts& counts) const {
  kernels_.histogram(piece.data(), piece.size(), counts.data());
}

Codebook Remapper::choose(const Counts& counts) const {
  const LevelSet levels = fit(granularity_, counts, levels_);
  return {levels, map_to(granularity_, levels)};
}

void Remapper::apply(const Codebook& codebook, Bytes piece) const {
  kernels_.remap(piece.data(), piece.size(), codebook.map.data());
}

Deviation Remapper::remap_rows(Bytes rows, std::uint64_t row_bytes) const {
  Deviation sum;
  if (blocks_) {
    Counts before{}, after{};
    count(rows, before);
    sum.squared_error = (*blocks_)(rows);
    count(rows, after);
    for (unsigned n = 0; n < 16; ++n) {
      const std::int64_t value = format::twice_value(n);
      sum.elements += before[n];
      sum.squared_value += before[n] * static_cast<std::uint64_t>(value * value);
      sum.error += (static_cast<std::int64_t>(after[n]) - static_cast<std::int64_t>(before[n])) * value;
    }
    return sum;
  }
  if (levels_ >= kGridLevels) row_bytes = rows.size();  // the identity for all rows
  for (std::size_t at = 0; at < rows.size(); at += row_bytes) {
    const Bytes row = rows.subspan(at, row_bytes);
    Counts counts{};
    count(row, counts);
    const Codebook codebook = choose(counts);
    apply(codebook, row);
    sum += deviation(counts, codebook.map);
  }
  return sum;
}

}  // namespace planesmith
