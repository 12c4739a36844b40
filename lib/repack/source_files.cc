#include "repack/source_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace planesmith {
namespace {

constexpr int kDeepest = 16;

}  // namespace

SourceFiles::SourceFiles(const Context& context, const std::string& directory, std::vector<std::string> apart)
    : context_(context), directory_(directory), apart_(std::move(apart)) {
  walk("", 0);
}

void SourceFiles::walk(const std::string& inside, int depth) {
  if (depth > kDeepest)
    throw Error(join(directory_, inside),
                fmt::format("is nested more than {} deep; does a link form a loop?", kDeepest));
  for (const std::string& entry : list_dir(context_.os, join(directory_, inside))) {
    const std::string name = join(inside, entry), path = join(directory_, name);
    if (!exists(context_.os, path)) {
      left_out.push_back(name + " (a broken link)");
      continue;
    }
    const struct stat st = status(context_.os, path);
    if (S_ISDIR(st.st_mode)) {
      if (entry.starts_with('.'))
        left_out.push_back(name + " (a hidden directory)");
      else
        walk(name, depth + 1);
    } else if (!S_ISREG(st.st_mode)) {
      left_out.push_back(name + " (not a regular file)");
    } else if (std::find(apart_.begin(), apart_.end(), name) == apart_.end()) {
      files.push_back({name, static_cast<std::uint64_t>(st.st_size)});
    }
  }
}

std::string fingerprint(const Checkpoint& checkpoint) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::string text;
  for (const Shard& shard : checkpoint.shards())
    text += fmt::format("{} {} {}.{:09}\n", shard.name, shard.stamp.size, shard.stamp.mtime_ns / kSecond,
                        shard.stamp.mtime_ns % kSecond);
  return Xxh3::of(bytes_of(text)).hex();
}

}  // namespace planesmith
