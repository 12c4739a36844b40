// Digests of many files with one work list: large files are cut, so that all workers are busy to the end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/context.h"
#include "base/error.h"
#include "base/hash.h"
#include "manifest/manifest.h"

namespace planesmith {

struct FileToDigest {
  std::string path;                  // to open
  std::uint64_t size = 0;            // expected bytes
  std::vector<BlockRange> ranges{};  // blocks for XXH3, ascending, not overlapping; empty: no XXH3
  // Wanted blocks [first, second), ascending.
  std::vector<std::pair<std::size_t, std::size_t>> runs{};
  bool zero_gaps = false;  // bytes between the blocks must be zero
  // Digests of the whole file. They need one pass from front to back,
  // so the file is then one unit of work and `runs` is ignored.
  bool sha256 = false, git_sha1 = false;
};

// One finished piece of work.
struct Digested {
  std::size_t file = 0;
  std::size_t first_block = 0;
  std::vector<Xxh3> blocks{};                  // digests of blocks first_block, ...
  std::optional<std::uint64_t> nonzero_gap{};  // offset of the first byte between blocks that is not zero
  std::string sha256{}, git_sha1{};            // hex, if wanted
  std::optional<Error> failure{};              // the file could not be read; the rest is then empty
};

// Runs a progress stage of that name. `take` is called for one unit at a time, from any thread. Errors:
// stopped; too little memory. A file that cannot be read gives a Digested with `failure`, not an Error.
void digest_files(const Context& context, const std::string& stage, std::span<const FileToDigest> files,
                  const std::function<void(const Digested&)>& take);

}  // namespace planesmith
