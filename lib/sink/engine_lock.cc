#include "sink/engine_lock.h"

#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>

#include "base/error.h"
#include "base/lock_file.h"
#include "base/machine.h"
#include "base/paths.h"

namespace planesmith {
namespace {

constexpr int kTries = 50;  // retries while the lock file is replaced between open and flock

// A new pack gets 0666 less the umask. Users who may write the pack may open the lock.
mode_t lock_mode(bool group) {
  const mode_t mask = file_creation_mask();
  mode_t mode = 0600;
  if (group || (mask & 0020) == 0) mode |= 0060;
  if ((mask & 0002) == 0) mode |= 0006;
  return mode;
}

File open_lock(const Context& context, const Dir& dir, const std::string& name) {
  return dir.open_or_create(name, lock_mode(context.group_shared));
}

}  // namespace

std::optional<File> try_engine_lock(const Context& context, const Dir& dir, const std::string& name) {
  for (int i = 0; i < kTries; ++i) {
    File file = open_lock(context, dir, name);
    if (!try_flock(context.os, file)) return std::nullopt;
    // The pack may have been removed with its lock, and replaced, since the lock was opened.
    if (dir.leads_to(name, file)) return file;
  }
  throw Error(dir.path_of(name),
              "shows another inode each time it is looked up, so the engine's lock protocol cannot work "
              "here; use another file system");
}

File wait_for_engine_lock(const Context& context, const Dir& dir, const std::string& name) {
  std::optional<File> lock;
  wait_until(
      context, [&] { return (lock = try_engine_lock(context, dir, name)).has_value(); },
      [&] {
        const std::string holder = flock_holder(open_lock(context, dir, name));
        return fmt::format("waiting for {}, held by {}", dir.path_of(name),
                           holder.empty() ? "another process" : holder);
      });
  return std::move(*lock);
}

void require_flock(Os& os, const std::string& directory) {
  const Dir dir = Dir::open(os, nearest_existing(os, directory));
  if (os.flock(dir.fd(), LOCK_SH | LOCK_NB) == 0) {
    os.flock(dir.fd(), LOCK_UN);
  } else if (errno == ENOSYS || errno == ENOLCK || errno == EOPNOTSUPP) {
    refuse_without_flock(dir.path());
  }
}

}  // namespace planesmith
