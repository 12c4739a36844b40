// A read-only file system in memory, so that a fuzz target can run a reader of files some thousand times a
// second.
#pragma once

#include <errno.h>

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
  const Node& at(int fd) const { return std::next(nodes.begin(), fd - kFirst)->second; }
  static int describe(const Node& node, struct stat* out) {
    *out = {};
    out->st_mode = node.directory ? S_IFDIR : S_IFREG;
    out->st_size = static_cast<off_t>(node.size);
    return 0;
  }
};
