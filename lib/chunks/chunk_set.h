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
// may be empty. Errors: nothing found, several sets and no name, parts of one name with suffixes that do not
// go together, a gap in the parts' numbers where no manifest tells what is missing.
ChunkSet find_chunks(const std::vector<std::string>& inputs, const std::string& name,
                     const std::string& manifest, const Context& context);

// Where the manifest of a set is in the directory, under the name of today or the earlier one; empty where it
// is not.
std::string find_manifest(Os& os, const std::string& dir, const std::string& name);

// Names of all files of a set that pack makes, as far as they are there; those of an earlier version
// included.
std::vector<std::string> files_of_set(Os& os, const std::string& dir, const std::string& name);

// find_chunks, and an Error where there is no manifest.
ChunkSet find_chunks_with_manifest(const std::string& dir, const std::string& name, const Context& context);

}  // namespace planesmith::chunks
