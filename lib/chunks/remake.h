// Single parts of a finished set, made again from the files that it was packed from.
#pragma once

#include <string>
#include <vector>

#include "base/context.h"
#include "base/dir.h"
#include "chunks/chunk_set.h"
#include "chunks/part_maker.h"

namespace planesmith::chunks {

// Indices of the parts that are missing or have another size, or with `content` another content.
std::vector<std::size_t> damaged_parts(const ChunkManifest& manifest, const std::string& dir, bool content,
                                       const Context& context);

// Makes these parts of the set whose manifest this is, and puts them in their places beside it. source: the
// file or directory that was packed, or the directory that holds all that was. Errors: a file that is not
// what was packed, or is not there; a version of zstd or of the tar writer that gives other bytes than the
// one that made the set. Parts that were there stay as they are then.
void remake_parts(const std::string& manifest_path, const std::vector<std::size_t>& parts,
                  const std::string& source, const Context& context);

// The same with the files known.
void remake_parts(const ChunkManifest& manifest, const Dir& out, const Dir& staging,
                  const std::vector<std::size_t>& parts, const std::vector<Origin>& origins,
                  const Context& context);

}  // namespace planesmith::chunks
