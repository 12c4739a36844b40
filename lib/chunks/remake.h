// Makes single parts of a finished set again, from the files that were packed.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/dir.h"
#include "chunks/chunk_set.h"
#include "chunks/part_maker.h"

namespace planesmith::chunks {

// Indices of the parts that are missing or have the wrong size or, with `content`, the wrong content.
std::vector<std::size_t> damaged_parts(const ChunkManifest& manifest, const std::string& dir, bool content,
                                       const Context& context);

// Makes these parts of the manifest's set and puts them beside the manifest. source: the file or directory
// that was packed, or the directory that holds everything that was. Errors: a file that is missing or not
// what was packed; a version of zstd or of the tar writer that gives other bytes than the one that made the
// set. Existing parts then stay unchanged.
void remake_parts(const std::string& manifest_path, const std::vector<std::size_t>& parts,
                  const std::string& source, const Context& context);

// The same with known origins.
void remake_parts(const ChunkManifest& manifest, const Dir& out, const Dir& staging,
                  const std::vector<std::size_t>& parts, const std::vector<Origin>& origins,
                  const Context& context);

}  // namespace planesmith::chunks
