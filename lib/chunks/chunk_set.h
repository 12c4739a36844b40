// Finds the set of chunks that DIR, PART..., --name and --manifest stand for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "chunks/chunk_manifest.h"

namespace planesmith::chunks {

struct ChunkSet {
  std::string name;
  std::optional<ChunkManifest> manifest;
  std::string manifest_path;
  // With a manifest: where each of its parts is, empty where it is missing. Without one: all parts, in order.
  std::vector<std::string> parts;
  std::vector<std::string> extra;  // parts of this name that the manifest does not list
};

// inputs: one directory, or part files in any order (of any name if there is no manifest). name, manifest:
// may be empty. Errors: nothing found; several sets and no name; without a manifest, parts of one name
// numbered in different ways, or a gap in their numbers.
ChunkSet find_chunks(const std::vector<std::string>& inputs, const std::string& name,
                     const std::string& manifest, const Context& context);

// The path of the set's manifest in the directory, under its current or its earlier name; empty: missing.
std::string find_manifest(Os& os, const std::string& dir, const std::string& name);

// Names of the files in the directory that pack made for this set, those of earlier versions included.
std::vector<std::string> files_of_set(Os& os, const std::string& dir, const std::string& name);

// find_chunks(), and an Error without a manifest.
ChunkSet find_chunks_with_manifest(const std::string& dir, const std::string& name, const Context& context);

}  // namespace planesmith::chunks
