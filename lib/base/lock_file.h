// Locks that keep runs of these programs apart.
// The engine's .lock files are different: they stay (sink/engine_lock.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/dir.h"

namespace planesmith {

// An exclusive flock on a file that names the holder's process, user and host. The holder removes the
// file before it releases the lock, so nothing is left behind; a waiter opens the file again by name
// until the locked file is the one in the directory. On a file system without flock, NAME.held, created
// exclusively, takes its place; a stale one of an ended process of this host is removed. Errors: the
// file is not ours (owner and mode are named), or the file system shows a different inode each time.
class LockFile {
 public:
  // False where another process holds it. `group`: members of the directory's group share the lock.
  static bool try_take(const Dir& dir, const std::string& name, std::vector<LockFile>& held,
                       bool group = false);
  static bool try_take(Os& os, const std::string& path, std::vector<LockFile>& held);
  // The holder, for a message: "process 71 of user alice (1000)"; and what to do if that process has ended.
  static std::string holder(const Dir& dir, const std::string& name);
  // The name of the lock that a directory entry belongs to: the entry itself without ".held".
  static std::string lock_of(std::string_view entry);

  LockFile(LockFile&&) = default;
  LockFile& operator=(LockFile&&) = delete;
  ~LockFile();

 private:
  LockFile(Dir dir, std::string name, File file)
      : dir_(std::move(dir)), name_(std::move(name)), file_(std::move(file)) {}
  Dir dir_;
  std::string name_;
  File file_;
};

// Waits until the lock is free and takes it. Polls Stop; after a second says who holds it.
std::vector<LockFile> wait_for_lock(const Context& context, const Dir& dir, const std::string& name);
std::vector<LockFile> wait_for_lock(const Context& context, const std::string& path);

// Takes an flock on an open file; false where another process has it.
// Error, naming the mount option, where the file system has no flock.
bool try_flock(Os& os, const File& file);
[[noreturn]] void refuse_without_flock(const std::string& path);
// The process that has an flock on the file: "process 71 of user alice (1000)";
// empty where this machine cannot tell.
std::string flock_holder(const File& file);
// Calls `take` until it returns true, polling Stop; after a second says, once, what `message` returns.
void wait_until(const Context& context, const std::function<bool()>& take,
                const std::function<std::string()>& message);

}  // namespace planesmith
