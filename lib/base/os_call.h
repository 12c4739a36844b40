// Wrappers for operating-system calls: retried where a signal interrupted them or a server forgot a handle,
// an Error where they failed. For base/ only.
#pragma once

#include <errno.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace planesmith {

class File;

// NFS fails with ESTALE where the server no longer knows a handle: after another machine replaced the file,
// or the server restarted. Waits and returns whether to try the call again; `tries` counts.
bool stale_for_a_moment(int& tries);

template <typename Call>
auto retried(Call call) {
  int stale = 0;
  auto result = call();
  while (result == -1 && (errno == EINTR || (errno == ESTALE && stale_for_a_moment(stale)))) result = call();
  return result;
}

// Throws "PATH: what: No such file or directory", with advice for some errors.
[[noreturn]] void fail_errno(const std::string& path, std::string_view what, int error);

// The file's contents; Error where they are more than max_bytes.
std::string text_of(const File& file, std::uint64_t max_bytes);

// Whether fsync() of a directory failed because the file system lacks it (SMB, FUSE, old NFS),
// not because something is wrong.
bool cannot_sync_directories(int error);

}  // namespace planesmith
