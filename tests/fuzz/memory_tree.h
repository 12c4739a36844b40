// A file system in memory that can be written to, with directories and links, so that a fuzz target can run a
// writer of files some thousand times a second. Files keep the pieces that were written to them: holes of any
// size cost nothing.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/os.h"

class MemoryTree : public planesmith::Os {
 public:
  struct Node {
    mode_t mode = 0;     // with the file type
    std::string target;  // of a symbolic link
    off_t size = 0;
    std::vector<std::pair<off_t, std::string>> pieces;  // as they were written
  };
  using Nodes = std::map<std::string, std::shared_ptr<Node>, std::less<>>;  // by path; relative, without dots

  std::string input;  // what read() gives

  MemoryTree() { nodes_["."] = std::make_shared<Node>(Node{.mode = S_IFDIR | 0755}); }
  const Nodes& nodes() const { return nodes_; }

  int open(const char* path, int flags, mode_t mode) override {
    std::shared_ptr<Node> node = find(path);
    if (!node) {
      if ((flags & O_CREAT) == 0) return fail(ENOENT);
      if (!may_make(path)) return -1;
      node = nodes_[path] = std::make_shared<Node>(Node{.mode = S_IFREG | mode});
    } else if ((flags & O_EXCL) != 0) {
      return fail(EEXIST);
    }
    if (S_ISLNK(node->mode)) return fail((flags & O_DIRECTORY) != 0 ? ENOTDIR : ELOOP);
    if ((flags & O_DIRECTORY) != 0 && !S_ISDIR(node->mode)) return fail(ENOTDIR);
    if ((flags & O_TRUNC) != 0) *node = Node{.mode = node->mode};
    for (std::size_t i = 0; i < open_.size(); ++i)
      if (!open_[i].node) {
        open_[i] = {node, path};
        return kFirst + static_cast<int>(i);
      }
    open_.push_back({node, path});
    return kFirst + static_cast<int>(open_.size()) - 1;
  }
  int openat(int dir, const char* path, int flags, mode_t mode) override {
    return open(full(dir, path).c_str(), flags, mode);
  }
  int openat2(int dir, const char* path, int flags, mode_t mode, std::uint64_t) override {
    return openat(dir, path, flags, mode);  // a path through a link does not exist
  }
  int fstatat(int dir, const char* path, struct stat* out, int) override {
    return lstat(full(dir, path).c_str(), out);
  }
  int mkdirat(int dir, const char* path, mode_t mode) override {
    return mkdir(full(dir, path).c_str(), mode);
  }
  int renameat(int from_dir, const char* from, int to_dir, const char* to) override {
    return rename(full(from_dir, from).c_str(), full(to_dir, to).c_str());
  }
  int linkat(int from_dir, const char* from, int to_dir, const char* to) override {
    return link(full(from_dir, from).c_str(), full(to_dir, to).c_str());
  }
  int unlinkat(int dir, const char* path, int flags) override {
    const std::string name = full(dir, path);
    return (flags & AT_REMOVEDIR) != 0 ? rmdir(name.c_str()) : unlink(name.c_str());
  }
  int symlinkat(const char* target, int dir, const char* path) override {
    return symlink(target, full(dir, path).c_str());
  }
  ssize_t readlinkat(int dir, const char* path, char* to, std::size_t n) override {
    const std::shared_ptr<Node> node = find(full(dir, path));
    if (!node) return fail(ENOENT);
    n = std::min(n, node->target.size());
    memcpy(to, node->target.data(), n);
    return static_cast<ssize_t>(n);
  }
  int fchmod(int fd, mode_t mode) override {
    Node& node = *at(fd);
    node.mode = (node.mode & S_IFMT) | mode;
    return 0;
  }
  DIR* fdopendir(int fd) override {
    DIR* listing = opendir(open_[static_cast<std::size_t>(fd - kFirst)].path.c_str());
    close(fd);
    return listing;
  }
  int close(int fd) override {
    at(fd).reset();
    return 0;
  }
  ssize_t read(int, void* to, std::size_t n) override {
    n = std::min(n, input.size() - read_);
    memcpy(to, input.data() + read_, n);
    read_ += n;
    return static_cast<ssize_t>(n);
  }
  ssize_t pread(int fd, void* to, std::size_t n, off_t offset) override {
    const Node& node = *at(fd);
    n = static_cast<std::size_t>(std::clamp<off_t>(node.size - offset, 0, static_cast<off_t>(n)));
    memset(to, 0, n);
    const off_t end = offset + static_cast<off_t>(n);
    for (const auto& [begin, bytes] : node.pieces) {
      const off_t from = std::max(begin, offset),
                  until = std::min(begin + static_cast<off_t>(bytes.size()), end);
      if (from < until)
        memcpy(static_cast<char*>(to) + (from - offset), bytes.data() + (from - begin),
               static_cast<std::size_t>(until - from));
    }
    return static_cast<ssize_t>(n);
  }
  ssize_t pwrite(int fd, const void* from, std::size_t n, off_t offset) override {
    Node& node = *at(fd);
    node.pieces.emplace_back(offset, std::string(static_cast<const char*>(from), n));
    node.size = std::max(node.size, offset + static_cast<off_t>(n));
    return static_cast<ssize_t>(n);
  }
  int ftruncate(int fd, off_t size) override {
    Node& node = *at(fd);
    if (size < 0) return fail(EINVAL);
    node.size = size;
    for (auto& [begin, bytes] : node.pieces)
      bytes.resize(
          static_cast<std::size_t>(std::clamp<off_t>(size - begin, 0, static_cast<off_t>(bytes.size()))));
    return 0;
  }
  int fsync(int) override { return 0; }
  int fdatasync(int) override { return 0; }
  int fadvise(int, off_t, off_t, int) override { return 0; }
  int start_writeback(int, off_t, off_t) override { return 0; }
  int flock(int, int) override { return 0; }
  int fstat(int fd, struct stat* out) override { return describe(*at(fd), out); }
  int stat(const char* path, struct stat* out) override {
    return lstat(path, out);
  }  // no link leads to what is read
  int lstat(const char* path, struct stat* out) override {
    const std::shared_ptr<Node> node = find(path);
    return node ? describe(*node, out) : fail(ENOENT);
  }
  int statvfs(const char*, struct statvfs* out) override {
    *out = {};
    out->f_frsize = 1;
    out->f_bavail = std::uint64_t{1} << 40;
    return 0;
  }
  int rename(const char* from, const char* to) override {
    const std::shared_ptr<Node> node = find(from);
    if (!node) return fail(ENOENT);
    if (!may_make(to)) return -1;
    nodes_.erase(nodes_.find(std::string_view(from)));
    nodes_[to] = node;
    return 0;
  }
  int link(const char* from, const char* to) override {
    const std::shared_ptr<Node> node = find(from);
    if (!node) return fail(ENOENT);
    if (find(to)) return fail(EEXIST);
    if (!may_make(to)) return -1;
    nodes_[to] = node;
    return 0;
  }
  int symlink(const char* target, const char* path) override {
    if (find(path)) return fail(EEXIST);
    if (!may_make(path)) return -1;
    nodes_[path] = std::make_shared<Node>(Node{.mode = S_IFLNK | 0777, .target = target});
    return 0;
  }
  int unlink(const char* path) override {
    const std::shared_ptr<Node> node = find(path);
    if (!node) return fail(ENOENT);
    if (S_ISDIR(node->mode)) return fail(EISDIR);
    nodes_.erase(nodes_.find(std::string_view(path)));
    return 0;
  }
  int rmdir(const char* path) override {
    const std::shared_ptr<Node> node = find(path);
    if (!node) return fail(ENOENT);
    if (!S_ISDIR(node->mode)) return fail(ENOTDIR);
    const std::string prefix = std::string(path) + "/";
    if (const auto inner = nodes_.lower_bound(prefix);
        inner != nodes_.end() && inner->first.starts_with(prefix))
      return fail(ENOTEMPTY);
    nodes_.erase(nodes_.find(std::string_view(path)));
    return 0;
  }
  int mkdir(const char* path, mode_t mode) override {
    if (find(path)) return fail(EEXIST);
    if (!may_make(path)) return -1;
    nodes_[path] = std::make_shared<Node>(Node{.mode = S_IFDIR | mode});
    return 0;
  }
  int chmod(const char* path, mode_t mode) override {
    const std::shared_ptr<Node> node = find(path);
    if (!node) return fail(ENOENT);
    node->mode = (node->mode & S_IFMT) | mode;
    return 0;
  }
  DIR* opendir(const char* path) override {
    if (!find(path)) return nullptr;
    auto* listing = new Listing;
    const std::string prefix = std::string(path) + "/";  // no target lists "."
    for (auto node = nodes_.upper_bound(prefix); node != nodes_.end() && node->first.starts_with(prefix);
         ++node)
      if (node->first.find('/', prefix.size()) == std::string::npos)
        listing->names.push_back(node->first.substr(prefix.size()));
    return reinterpret_cast<DIR*>(listing);
  }
  struct dirent* readdir(DIR* dir) override {
    auto& listing = *reinterpret_cast<Listing*>(dir);
    if (listing.next == listing.names.size()) return nullptr;
    const std::string& name = listing.names[listing.next++];
    memcpy(listing.entry.d_name, name.c_str(), name.size() + 1);
    return &listing.entry;
  }
  int closedir(DIR* dir) override {
    delete reinterpret_cast<Listing*>(dir);
    return 0;
  }

 private:
  static constexpr int kFirst = 1000;
  struct Listing {
    std::vector<std::string> names;
    std::size_t next = 0;
    struct dirent entry {};
  };
  static int fail(int error) {
    errno = error;
    return -1;
  }
  struct Opened {
    std::shared_ptr<Node> node;
    std::string path;
  };
  std::shared_ptr<Node>& at(int fd) { return open_[static_cast<std::size_t>(fd - kFirst)].node; }
  // The path that a name relative to a descriptor means.
  std::string full(int dir, const char* path) const {
    if (dir == AT_FDCWD) return path;
    const std::string& directory = open_[static_cast<std::size_t>(dir - kFirst)].path;
    if (strcmp(path, ".") == 0) return directory;
    return directory == "." ? path : directory + "/" + path;
  }
  std::shared_ptr<Node> find(std::string_view path) const {
    const auto node = nodes_.find(path);
    return node == nodes_.end() ? nullptr : node->second;
  }
  // Whether the parent of a path is a directory, as the kernel checks.
  bool may_make(std::string_view path) {
    const std::size_t slash = path.rfind('/');
    if (path.size() > 4200 || path.size() - slash - 1 > 255) return fail(ENAMETOOLONG) == 0;
    const std::shared_ptr<Node> directory = find(slash == path.npos ? "." : path.substr(0, slash));
    if (!directory) return fail(ENOENT) == 0;
    return S_ISDIR(directory->mode) || fail(ENOTDIR) == 0;
  }
  static int describe(const Node& node, struct stat* out) {
    *out = {};
    out->st_mode = node.mode;
    out->st_size = node.size;
    out->st_uid = ::geteuid();
    out->st_ino = reinterpret_cast<ino_t>(&node);
    out->st_nlink = 1;
    return 0;
  }

  Nodes nodes_;
  std::vector<Opened> open_;
  std::size_t read_ = 0;
};
