// Finding a set of chunks: what DIR, PART... and --name, --manifest stand for.
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

// inputs: one directory, or part files in any order (of any name where there is no manifest). name, manifest:
// may be empty. Errors: nothing found, several sets and no name, a gap in the parts' numbers where no
// manifest tells what is missing.
ChunkSet find_chunks(const std::vector<std::string>& inputs, const std::string& name,
                     const std::string& manifest, const Context& context);

// find_chunks, and an Error where there is no manifest.
ChunkSet find_chunks_with_manifest(const std::string& dir, const std::string& name, const Context& context);

// Sorts names as `split` and pack-chunks count them: digits by value, letters by length and then alphabet.
void sort_parts(std::vector<std::string>& paths);

}  // namespace planesmith::chunks
