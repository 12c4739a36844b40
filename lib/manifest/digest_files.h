// Digests of many files over one work list: big files are cut, so that every worker is busy to the end.
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
  std::uint64_t size = 0;            // what it must have
  std::vector<BlockRange> ranges{};  // blocks for XXH3, ascending and apart; empty: no XXH3
  std::vector<std::pair<std::size_t, std::size_t>>
      runs{};              // blocks [first, second) that are wanted, ascending
  bool zero_gaps = false;  // bytes between the blocks must be zero
  // Digests of the whole file. They need all of it in one pass, front to back: the file is one piece of work
  // then, whatever the runs say.
  bool sha256 = false, git_sha1 = false;
};

// One finished piece of work.
struct Digested {
  std::size_t file = 0;
  std::size_t first_block = 0;
  std::vector<Xxh3> blocks{};                  // of blocks first_block, ...
  std::optional<std::uint64_t> nonzero_gap{};  // first byte between blocks that should be zero and is not
  std::string sha256{}, git_sha1{};            // hex, where wanted
  std::optional<Error> failure{};              // it could not be read; the rest is empty then
};

// Runs a progress stage of that name. `take` is called for one piece at a time, from any thread.
// Errors: stopped; too little memory. A file that cannot be read is no Error but a Digested with `failure`.
void digest_files(const Context& context, const std::string& stage, std::span<const FileToDigest> files,
                  const std::function<void(const Digested&)>& take);

}  // namespace planesmith
