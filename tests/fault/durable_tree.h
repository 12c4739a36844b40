// What would be left of a directory after a power failure: a model kept beside the real files.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

// What happens to data that was never synced.
enum class Loss {
  none,       // the process died, the machine lives: everything stays
  all,        // names and contents fall back to the last sync
  contents,   // current names, contents as last synced: punishes a rename without a sync
  scattered,  // each un-synced change of a name, and of a file's contents, survives or not at random
};
inline constexpr Loss kLosses[] = {Loss::none, Loss::all, Loss::contents, Loss::scattered};

// Follows the operations done under one directory. A file's contents are durable once its data were synced,
// its mode and times once all of it was (fsync), a name (made, linked, renamed, removed) once its directory
// was; a rename is one step, durable with either directory. Everything found at the start is durable. Paths
// outside the directory are ignored.
class DurableTree {
 public:
  explicit DurableTree(std::string root);

  // To be called after each operation that succeeded.
  void made(const std::string& path);  // file, directory or symbolic link
  void removed(const std::string& path);
  void synced(int fd);       // a file or a directory, with all that belongs to it
  void data_synced(int fd);  // a file's contents and size only
  // A rename or a hard link. `from` is looked up before the operation, where it still has its old name.
  struct Name {
    std::uint64_t directory = 0, node = 0;  // 0: outside the tree
    std::string name;
  };
  Name look_up(const std::string& path) const;
  void renamed(const Name& from, const std::string& to);
  void linked(const Name& from, const std::string& to);

  // Turns the directory into what the machine would find after a power failure. Everything in it is durable
  // then.
  void lose_power(Loss loss, unsigned seed);

 private:
  using Node = std::uint64_t;  // a file, directory or link, under any of its names; 0: none
  using Inode = std::pair<dev_t, ino_t>;
  using Contents = std::shared_ptr<const std::string>;
  struct Durable {
    mode_t mode = 0;    // with the file type
    Contents contents;  // of a file; the target of a symbolic link
    struct timespec modified {};
    std::map<std::string, Node> entries;  // of a directory
  };
  struct Edit {
    Node directory;
    std::string name;
    Node node;  // 0: the name is removed
  };
  struct Change {
    std::vector<Edit> edits;  // happen together
    bool durable = false;
  };

  void take_stock();
  Node add(const std::string& path, const struct stat& st);
  Node node_of(const struct stat& st) const;
  void change(std::vector<Edit> edits);
  void collect(const std::string& directory, std::map<Node, std::string>& paths) const;
  void write_out(Node directory, const std::string& path, std::map<Node, std::string>& done) const;

  std::string root_;
  Node root_node_ = 0, next_ = 1;
  std::map<Inode, Node> by_inode_;  // inode numbers are reused: the newest file that had it
  std::map<Node, Durable> durable_;
  std::vector<Change> changes_;  // since the start, in order
};
