// What every call into the operating system has around it: repeated where a signal interrupted it or a server
// forgot a handle, an Error where it failed. For base/ only.
#pragma once

#include <errno.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace planesmith {

class File;

// NFS says ESTALE where the server knows a handle no more: after a file was replaced by another machine or
// the server was started again. Whether the call is to be made once more, after a moment; `tries` counts.
bool stale_for_a_moment(int& tries);

template <typename Call>
auto retried(Call call) {
  int stale = 0;
  auto result = call();
  while (result == -1 && (errno == EINTR || (errno == ESTALE && stale_for_a_moment(stale)))) result = call();
  return result;
}

// "PATH: what: No such file or directory", with advice where there is some.
[[noreturn]] void fail_errno(const std::string& path, std::string_view what, int error);

// All that the file holds; Error where that is more than max_bytes.
std::string text_of(const File& file, std::uint64_t max_bytes);

// Whether fsync() of a directory failed because this file system has no such thing (SMB, FUSE, old NFS), not
// because something is wrong.
bool cannot_sync_directories(int error);

}  // namespace planesmith
