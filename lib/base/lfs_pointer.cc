#include "base/lfs_pointer.h"

#include <array>

#include "base/error.h"

namespace planesmith {
namespace {

constexpr std::string_view kMark = "version https://git-lfs.github.com/spec/";

[[noreturn]] void refuse(const std::string& path) {
  throw Error(path, "is a git-LFS pointer, not the file itself; fetch the data with 'git lfs pull'").at(0);
}

}  // namespace

bool is_lfs_pointer(std::string_view start_of_file) {
  return start_of_file.starts_with(kMark);
}

bool is_lfs_pointer(const File& file) {
  std::array<std::uint8_t, kMark.size()> start{};
  const std::size_t n = file.read_some(start, 0);
  return is_lfs_pointer({reinterpret_cast<const char*>(start.data()), n});
}

void refuse_lfs_pointer(std::string_view start_of_file, const std::string& path) {
  if (is_lfs_pointer(start_of_file)) refuse(path);
}

void refuse_lfs_pointer(const File& file) {
  if (is_lfs_pointer(file)) refuse(file.path());
}

}  // namespace planesmith
