// Any piece of the tar stream, read from the files on disk on demand.
#pragma once

#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "chunks/layout.h"
#include "chunks/scan.h"

namespace planesmith::chunks {

// Fills `to` with the stream's bytes from `offset` on. Error: a file has changed since the scan.
void read_stream(const Layout& layout, const std::vector<Origin>& origins, const Context& context,
                 std::uint64_t offset, Bytes to);

}  // namespace planesmith::chunks
