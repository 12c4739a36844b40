// Locks of our own: they keep runs apart. Not the engine's .lock files, which stay (sink/engine_lock.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/dir.h"

namespace planesmith {

// An exclusive flock on a file that holds the holder's process, user and host. The holder removes the file
// before letting go, so nothing is left behind; the one that waits opens it again by name until the locked
// file is the one in the directory. Where the file system has no flock, NAME.held, created exclusively, takes
// its place; one left by a process of this host that is gone is taken over.
// Errors: the file is not ours (owner and mode are named), or the file system shows another inode at every
// look.
class LockFile {
 public:
  // False where another process holds it. `group`: members of the directory's group take part.
  static bool try_take(const Dir& dir, const std::string& name, std::vector<LockFile>& held,
                       bool group = false);
  static bool try_take(Os& os, const std::string& path, std::vector<LockFile>& held);
  // Who holds it, for a message: "process 71 of user alice"; and how to go on where that process is gone.
  static std::string holder(const Dir& dir, const std::string& name);
  // The lock that a file in a directory belongs to, if it belongs to one: the name itself, or without what is
  // behind it where the file system has no flock.
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

// Takes it as soon as no one else holds it. Stop is polled meanwhile; after a moment says whom it waits for.
std::vector<LockFile> wait_for_lock(const Context& context, const Dir& dir, const std::string& name);
std::vector<LockFile> wait_for_lock(const Context& context, const std::string& path);

// Takes an flock on an open file; false where another process has it. Error where the file system has no
// flock, naming the mount option.
bool try_flock(Os& os, const File& file);
[[noreturn]] void refuse_without_flock(const std::string& path);
// The process that has an flock on it, as far as this machine can tell: "process 71 of user alice (1000)".
std::string flock_holder(const File& file);
// Calls `take` until it returns true, polling Stop; after a moment says what `whom` returns, once.
void wait_until(const Context& context, const std::function<bool()>& take,
                const std::function<std::string()>& whom);

}  // namespace planesmith
