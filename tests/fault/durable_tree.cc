#include "fault/durable_tree.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>
#include <stdexcept>

#include "base/file.h"

namespace fs = std::filesystem;
using planesmith::join;
using planesmith::name_of;
using planesmith::parent_of;

namespace {

void must(bool ok, const std::string& path) {
  if (!ok) throw std::runtime_error("durable tree: " + path);
}

struct stat lstat_of(const std::string& path) {
  struct stat st {};
  must(::lstat(path.c_str(), &st) == 0, path);
  return st;
}

std::string contents_of(const std::string& path, const struct stat& st) {
  if (S_ISLNK(st.st_mode)) return fs::read_symlink(path).string();
  if (!S_ISREG(st.st_mode)) return "";
  std::ifstream in(path, std::ios::binary);
  std::string contents(static_cast<std::size_t>(st.st_size), '\0');
  must(static_cast<bool>(in.read(contents.data(), st.st_size)), path);
  return contents;
}

}  // namespace

DurableTree::DurableTree(std::string root) : root_(std::move(root)) {
  take_stock();
}

void DurableTree::take_stock() {
  by_inode_.clear();
  durable_.clear();
  changes_.clear();
  root_node_ = add(root_, lstat_of(root_));
}

DurableTree::Node DurableTree::node_of(const struct stat& st) const {
  const auto it = by_inode_.find({st.st_dev, st.st_ino});
  return it == by_inode_.end() ? 0 : it->second;
}

// Takes in what is at path as durable, everything below it too.
DurableTree::Node DurableTree::add(const std::string& path, const struct stat& st) {
  if (const Node known = node_of(st); known != 0) return known;  // a second name
  const Node node = next_++;
  by_inode_[{st.st_dev, st.st_ino}] = node;
  Durable& durable = durable_[node];
  durable.mode = st.st_mode;
  durable.modified = st.st_mtim;
  durable.contents = std::make_shared<std::string>(contents_of(path, st));
  if (S_ISDIR(st.st_mode))  // sorted, so that the random choices are the same everywhere
    for (const std::string& name : planesmith::list_dir(planesmith::posix(), path))
      durable_[node].entries[name] = add(join(path, name), lstat_of(join(path, name)));
  return node;
}

DurableTree::Name DurableTree::look_up(const std::string& path) const {
  Name out;
  out.name = name_of(path);
  struct stat st {};
  if (::stat(parent_of(path).c_str(), &st) == 0) out.directory = node_of(st);
  if (out.directory != 0 && ::lstat(path.c_str(), &st) == 0) out.node = node_of(st);
  return out;
}

void DurableTree::change(std::vector<Edit> edits) {
  std::erase_if(edits, [](const Edit& edit) { return edit.directory == 0; });
  if (!edits.empty()) changes_.push_back({std::move(edits), false});
}

void DurableTree::made(const std::string& path) {
  const Name at = look_up(path);
  if (at.directory == 0) return;
  const struct stat st = lstat_of(path);
  by_inode_.erase({st.st_dev, st.st_ino});  // the number may have been another file's
  const Node node = next_++;
  by_inode_[{st.st_dev, st.st_ino}] = node;
  Durable& durable = durable_[node];  // neither its name nor a file's contents are durable yet
  durable.mode = st.st_mode;
  durable.modified = st.st_mtim;
  durable.contents = std::make_shared<std::string>(S_ISLNK(st.st_mode) ? contents_of(path, st) : "");
  change({{at.directory, at.name, node}});
}

void DurableTree::removed(const std::string& path) {
  const Name at = look_up(path);
  change({{at.directory, at.name, 0}});
}

void DurableTree::renamed(const Name& from, const std::string& to) {
  const Name at = look_up(to);
  if (from.directory == at.directory && from.name == at.name) return;
  change({{from.directory, from.name, 0}, {at.directory, at.name, from.node}});
}

void DurableTree::linked(const Name& from, const std::string& to) {
  const Name at = look_up(to);
  change({{at.directory, at.name, from.node}});
}

void DurableTree::synced(int fd) {
  struct stat st {};
  must(::fstat(fd, &st) == 0, "fstat");
  const Node node = node_of(st);
  if (node == 0) return;
  durable_[node].mode = st.st_mode;
  durable_[node].modified = st.st_mtim;
  if (S_ISDIR(st.st_mode)) {
    for (Change& c : changes_)
      if (std::any_of(c.edits.begin(), c.edits.end(),
                      [&](const Edit& edit) { return edit.directory == node; }))
        c.durable = true;
    return;
  }
  data_synced(fd);
}

void DurableTree::data_synced(int fd) {
  struct stat st {};
  must(::fstat(fd, &st) == 0, "fstat");
  const Node node = node_of(st);
  if (node == 0) return;
  // The descriptor may be for writing only, so it is read by name.
  const std::string path = "/proc/self/fd/" + std::to_string(fd);
  durable_[node].contents = std::make_shared<std::string>(contents_of(path, st));
}

void DurableTree::collect(const std::string& directory, std::map<Node, std::string>& paths) const {
  for (const auto& entry : fs::directory_iterator(directory)) {
    const struct stat st = lstat_of(entry.path());
    if (const Node node = node_of(st); node != 0) paths.emplace(node, entry.path());
    if (S_ISDIR(st.st_mode)) collect(entry.path(), paths);
  }
}

void DurableTree::write_out(Node directory, const std::string& path,
                            std::map<Node, std::string>& done) const {
  for (const auto& [name, node] : durable_.at(directory).entries) {
    const std::string target = join(path, name);
    const Durable& durable = durable_.at(node);
    if (const auto it = done.find(node); it != done.end()) {
      must(::link(it->second.c_str(), target.c_str()) == 0, target);
      continue;
    }
    if (S_ISDIR(durable.mode)) {
      must(::mkdir(target.c_str(), 0700) == 0, target);
      write_out(node, target, done);
      must(::chmod(target.c_str(), durable.mode & 07777) == 0, target);
      continue;
    }
    if (S_ISLNK(durable.mode)) {
      fs::create_symlink(*durable.contents, target);
    } else {
      std::ofstream(target, std::ios::binary) << *durable.contents;
      must(::chmod(target.c_str(), durable.mode & 07777) == 0, target);
      const struct timespec times[2] = {durable.modified, durable.modified};
      must(::utimensat(AT_FDCWD, target.c_str(), times, 0) == 0, target);
    }
    done.emplace(node, target);
  }
}

void DurableTree::lose_power(Loss loss, unsigned seed) {
  if (loss == Loss::none) return take_stock();
  std::mt19937 dice(seed);
  const auto survives = [&] {
    return loss == Loss::contents || (loss == Loss::scattered && dice() % 2 == 0);
  };

  for (const Change& change : changes_) {
    if (!change.durable && !survives()) continue;
    for (const Edit& edit : change.edits) {
      if (edit.node == 0)
        durable_.at(edit.directory).entries.erase(edit.name);
      else
        durable_.at(edit.directory).entries[edit.name] = edit.node;
    }
  }
  if (loss == Loss::scattered) {
    std::map<Node, std::string> paths;
    collect(root_, paths);
    for (const auto& [node, path] : paths) {
      Durable& durable = durable_.at(node);
      if (!S_ISREG(durable.mode)) continue;
      std::string now = contents_of(path, lstat_of(path));
      if (now == *durable.contents) continue;
      switch (dice() % 3) {
        case 0:  // as last synced
          break;
        case 1:  // got there by itself
          durable.contents = std::make_shared<std::string>(std::move(now));
          break;
        case 2:  // the length got there, the new bytes did not
          durable.contents = std::make_shared<std::string>([&] {
            std::string torn = *durable.contents;
            torn.resize(now.size(), '\0');
            return torn;
          }());
          break;
      }
    }
  }

  for (const auto& entry : fs::directory_iterator(root_)) fs::remove_all(entry.path());
  std::map<Node, std::string> done;
  write_out(root_node_, root_, done);
  take_stock();
}
