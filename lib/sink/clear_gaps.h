// Bytes of a pack that belong to no slot of a listed layer must be zero (FORMAT.md section 7).
#pragma once

#include <cstdint>
#include <span>

#include "base/context.h"
#include "base/file.h"
#include "manifest/manifest.h"

namespace planesmith {

// Zeroes all bytes outside the ranges, which must be ascending and disjoint; skips holes. Returns how many
// bytes were not zero. The caller excludes other writers.
std::uint64_t clear_gaps(const Context& context, File& file, std::span<const BlockRange> ranges);

}  // namespace planesmith
