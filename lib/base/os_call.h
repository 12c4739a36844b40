// What every call into the operating system has around it: repeated where a signal interrupted it, an Error
// where it failed. For base/ only.
#pragma once

#include <errno.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace planesmith {

class File;

template <typename Call>
auto retried(Call call) {
  auto result = call();
  while (result == -1 && errno == EINTR) result = call();
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
