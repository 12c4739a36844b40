// A read-only file system in memory, so that a fuzz target can run a reader of files some thousand times a
// second.
#pragma once

#include <errno.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>

#include "base/os.h"

class MemoryOs : public planesmith::Os {
 public:
  struct Node {
    std::string_view bytes;  // must outlive the file system
    std::uint64_t size = 0;  // zeros follow the bytes
    bool directory = false;
  };
  std::map<std::string, Node, std::less<>> nodes;

  void put(const std::string& path, std::string_view bytes) { nodes[path] = {bytes, bytes.size()}; }

  int open(const char* path, int, mode_t) override {
    const auto node = nodes.find(std::string_view(path));
    if (node == nodes.end()) return fail(ENOENT);
    return kFirst + static_cast<int>(std::distance(nodes.begin(), node));
  }
  int openat(int dir, const char* path, int flags, mode_t mode) override {
    return open(full(dir, path).c_str(), flags, mode);
  }
  int openat2(int dir, const char* path, int flags, mode_t mode, std::uint64_t) override {
    return openat(dir, path, flags, mode);
  }
  int fstatat(int dir, const char* path, struct stat* out, int) override {
    return stat(full(dir, path).c_str(), out);
  }
  int lstat(const char* path, struct stat* out) override { return stat(path, out); }
  int mkdirat(int, const char*, mode_t) override { return fail(EROFS); }
  int renameat(int, const char*, int, const char*) override { return fail(EROFS); }
  int linkat(int, const char*, int, const char*) override { return fail(EROFS); }
  int unlinkat(int, const char*, int) override { return fail(EROFS); }
  int symlinkat(const char*, int, const char*) override { return fail(EROFS); }
  ssize_t readlinkat(int, const char*, char*, std::size_t) override {
    return fail(EINVAL);
  }  // there are no links
  int fchmod(int, mode_t) override { return fail(EROFS); }
  int close(int) override { return 0; }
  int fstat(int fd, struct stat* out) override { return describe(at(fd), out); }
  int stat(const char* path, struct stat* out) override {
    const auto node = nodes.find(std::string_view(path));
    return node == nodes.end() ? fail(ENOENT) : describe(node->second, out);
  }
  ssize_t pread(int fd, void* to, std::size_t n, off_t offset) override {
    const Node& node = at(fd);
    const auto from = static_cast<std::uint64_t>(offset);
    n = static_cast<std::size_t>(std::min<std::uint64_t>(n, from < node.size ? node.size - from : 0));
    std::memset(to, 0, n);
    if (from < node.bytes.size())
      std::memcpy(to, node.bytes.data() + from, std::min(n, node.bytes.size() - from));
    return static_cast<ssize_t>(n);
  }

 private:
  static constexpr int kFirst = 1000;
  static int fail(int error) {
    errno = error;
    return -1;
  }
  std::string full(int dir, const char* path) const {
    if (dir == AT_FDCWD) return path;
    const std::string& directory = std::next(nodes.begin(), dir - kFirst)->first;
    return std::strcmp(path, ".") == 0 ? directory : directory + "/" + path;
  }
  const Node& at(int fd) const { return std::next(nodes.begin(), fd - kFirst)->second; }
  static int describe(const Node& node, struct stat* out) {
    *out = {};
    out->st_mode = node.directory ? S_IFDIR : S_IFREG;
    out->st_size = static_cast<off_t>(node.size);
    return 0;
  }
};
