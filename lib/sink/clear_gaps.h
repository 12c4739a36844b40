// Bytes of a pack that belong to no slot of a listed layer must be zero (FORMAT.md section 7).
#pragma once

#include <cstdint>
#include <span>

#include "base/context.h"
#include "base/file.h"
#include "manifest/manifest.h"

namespace planesmith {

// Writes zeros over what is not zero outside the ranges, which are ascending and apart; holes are passed
// over. Returns how many bytes were not zero. The caller keeps other writers away.
std::uint64_t clear_gaps(const Context& context, File& file, std::span<const BlockRange> ranges);

}  // namespace planesmith
