#include "verify/candidate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"

namespace planesmith {
namespace {

// The range from a byte between two blocks to the next block, or to the end of the file.
BlockRange gap_from(const Manifest& manifest, const FileEntry& entry, std::uint64_t offset) {
  const std::vector<BlockRange> ranges = block_ranges(manifest, entry);
  const auto next =
      std::upper_bound(ranges.begin(), ranges.end(), offset,
                       [](std::uint64_t at, const BlockRange& range) { return at < range.offset; });
  return {offset, (next == ranges.end() ? entry.size : next->offset) - offset};
}

// "expert 3 to expert 7 (bytes 6144-16383) differ"
std::vector<std::string> describe_blocks(const Manifest& manifest, const FileEntry& entry,
                                         const std::vector<std::size_t>& bad) {
  constexpr std::size_t kMost = 10;
  std::vector<std::string> out;
  if (bad.empty()) return out;
  if (bad.size() == entry.blocks.size() && bad.size() > 1)
    return {fmt::format("all {} blocks differ", bad.size())};
  const std::vector<BlockRange> ranges = block_ranges(manifest, entry);
  std::size_t told = 0;
  for (std::size_t i = 0; i < bad.size() && out.size() < kMost;) {
    std::size_t end = i + 1;
    while (end < bad.size() && bad[end] == bad[end - 1] + 1) ++end;
    const BlockRange &first = ranges[bad[i]], &last = ranges[bad[end - 1]];
    std::string blocks = block_name(manifest, entry, bad[i]);
    if (end - i > 1) blocks += " to " + block_name(manifest, entry, bad[end - 1]);
    out.push_back(fmt::format("{} (bytes {}-{}) {}", blocks, first.offset, last.offset + last.size - 1,
                              end - i > 1 ? "differ" : "differs"));
    told += end - i;
    i = end;
  }
  if (told < bad.size()) out.push_back(fmt::format("and {} blocks more", bad.size() - told));
  return out;
}

}  // namespace

bool Candidate::take(const Manifest& manifest, const Digested& done) {
  if (done.failure) {
    unreadable = done.failure->offset()
                     ? fmt::format("at byte {}: {}", *done.failure->offset(), done.failure->reason())
                     : done.failure->reason();
    denied = done.failure->label() == "permission";
    return false;
  }
  bool good = true;
  for (std::size_t i = 0; i < done.blocks.size(); ++i) {
    if (done.blocks[i] == entry->blocks[done.first_block + i]) continue;
    bad.push_back(done.first_block + i);
    good = false;
  }
  const auto wrong = [&](std::string what) {
    trouble.push_back(std::move(what));
    good = false;
  };
  if (done.nonzero_gap) {
    wrong(fmt::format("byte {} lies outside the rows that are filled and is not zero", *done.nonzero_gap));
    strays.push_back(gap_from(manifest, *entry, *done.nonzero_gap));
  }
  if (!done.sha256.empty() && done.sha256 != entry->sha256)
    wrong(fmt::format("SHA-256 is {}, {} was expected", done.sha256, entry->sha256));
  if (!done.git_sha1.empty() && done.git_sha1 != entry->git_sha1)
    wrong(fmt::format("git's SHA-1 is {}, {} was expected", done.git_sha1, entry->git_sha1));
  return good;
}

std::vector<Difference> Candidate::differences(const Manifest& manifest) const {
  std::vector<Difference> out;
  if (unreadable) out.push_back({Difference::Kind::unreadable, entry->path, *unreadable, {}, {}, denied});
  if (bad.empty() && trouble.empty()) return out;
  Difference difference{Difference::Kind::content, entry->path, "", bad, strays};
  std::sort(difference.blocks.begin(), difference.blocks.end());
  std::vector<std::string> parts = describe_blocks(manifest, *entry, difference.blocks);
  parts.insert(parts.end(), trouble.begin(), trouble.end());
  difference.what = fmt::format("{}", fmt::join(parts, "; "));
  out.push_back(std::move(difference));
  return out;
}

}  // namespace planesmith
