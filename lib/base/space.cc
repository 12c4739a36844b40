#include "base/space.h"

#include <errno.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/os_call.h"
#include "base/paths.h"
#include "base/size.h"

namespace planesmith {

std::optional<std::uint64_t> known_free_space(Os& os, const std::string& directory) {
  const std::string path = nearest_existing(os, directory);
  struct statvfs st {};
  if (retried([&] { return os.statvfs(path.c_str(), &st); }) != 0) {
    if (errno != ENOSYS && errno != EOPNOTSUPP) fail_errno(path, "cannot ask for free space", errno);
    st = {};
  }
  if (st.f_bavail != 0 || (st.f_blocks != 0 && st.f_bfree == 0))
    return static_cast<std::uint64_t>(st.f_bavail) * st.f_frsize;
  os.note_once("free space", fmt::format("{}: this file system does not tell how much space is free; make "
                                         "sure that the output fits",
                                         path));
  return std::nullopt;
}

void require_space(Os& os, const std::string& directory, std::uint64_t bytes, std::uint64_t reused) {
  if (bytes <= reused) return;
  const std::optional<std::uint64_t> available = known_free_space(os, directory);
  if (available && bytes - reused > *available)
    throw Error(directory, fmt::format("not enough space: {} needed, {} free; free some, or skip this check "
                                       "with --no-space-check",
                                       exact_size(bytes), exact_size(*available + reused)));
}

std::uint64_t sum_of_largest(std::vector<std::uint64_t> sizes, std::size_t n) {
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  sizes.resize(std::min(n, sizes.size()));
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

std::size_t most_that_fit(std::size_t most, std::uint64_t free,
                          const std::function<std::uint64_t(std::size_t n)>& needed) {
  if (most <= 1 || needed(most) <= free || needed(1) == needed(most)) return std::max<std::size_t>(most, 1);
  std::size_t fits = 1;
  for (std::size_t over = most; over - fits > 1;) {
    const std::size_t n = fits + (over - fits) / 2;
    (needed(n) <= free ? fits : over) = n;
  }
  return fits;
}

}  // namespace planesmith
