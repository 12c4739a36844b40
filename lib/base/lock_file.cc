#include "base/lock_file.h"

#include <errno.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/error.h"
#include "base/file_status.h"
#include "base/os_call.h"
#include "base/text.h"

namespace planesmith {
namespace {

constexpr int kTries = 50;
constexpr std::string_view kHeld = ".held", kBreaking = ".breaking";

enum class Flock { taken, held, unsupported };

Flock try_flock_of(Os& os, const File& file) {
  if (retried([&] { return os.flock(file.fd(), LOCK_EX | LOCK_NB); }) == 0) return Flock::taken;
  switch (errno) {
    case EWOULDBLOCK:
      return Flock::held;
    case ENOSYS:
    case ENOLCK:
    case EOPNOTSUPP:
      return Flock::unsupported;
    default:
      fail_errno(file.path(), "cannot lock", errno);
  }
}

std::string user_name(uid_t uid) {
  struct stat st {};
  st.st_uid = uid;
  const std::string text = owner_and_mode(st);
  return text.substr(0, text.find(','));
}

// The process that holds a lock, in the lock file as "PID USER HOST NAMESPACE".
// A process id is valid only on its host and in its PID namespace.
struct Owner {
  pid_t pid = 0;
  uid_t user = 0;
  std::string host, pid_namespace;

  static Owner self() {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    char space[64] = "";
    if (::readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0) space[0] = '\0';
    return {getpid(), geteuid(), host, space};
  }
  static std::optional<Owner> parse(const std::string& text) {
    std::istringstream in(text);
    Owner owner;
    if (in >> owner.pid >> owner.user >> owner.host >> owner.pid_namespace && owner.pid > 0) return owner;
    return std::nullopt;
  }
  std::string text() const { return fmt::format("{} {} {} {}\n", pid, user, host, pid_namespace); }
  std::string described() const {
    return fmt::format("process {} of {} on host {}", pid, user_name(user), printable(host));
  }
  // Whether the process has certainly ended; false where that is unknown.
  bool gone() const {
    const Owner here = self();
    return host == here.host && pid_namespace == here.pid_namespace && !pid_namespace.empty() &&
           kill(pid, 0) != 0 && errno == ESRCH;
  }
};

std::optional<Owner> owner_in(const Dir& dir, const std::string& name) {
  try {
    const File file = dir.open_read(name);
    std::string text(1024, '\0');
    text.resize(file.read_some({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, 0));
    return Owner::parse(text);
  } catch (const Error&) {
    return std::nullopt;  // gone, or not ours to read
  }
}

void require_ours(const File& file, bool group) {
  const struct stat st = file.status();
  if ((group || st.st_uid == geteuid()) && (st.st_mode & (group ? 0002 : 0022)) == 0) return;
  throw Error(file.path(),
              fmt::format("has the name of a lock, but belongs to {}; if no other run is using it, remove it",
                          owner_and_mode(st)));
}

// Without flock: the file itself is the lock. False where another process holds it.
std::optional<File> create_lock(const Dir& dir, const std::string& held, mode_t mode) {
  for (int i = 0; i < kTries; ++i) {
    if (!dir.exists(held)) {
      try {
        File file = dir.create_new(held, mode);
        try {
          file.write(bytes_of(Owner::self().text()), 0);
        } catch (...) {
          dir.unlink(held);
          throw;
        }
        return file;
      } catch (const Error&) {
        // Another process was faster, and may have removed its file since.
        if (i + 1 == kTries) throw;
        continue;
      }
    }
    const std::optional<Owner> owner = owner_in(dir, held);
    if (!owner || !owner->gone()) return std::nullopt;
    // Only one process at a time may remove a stale lock; a second would remove the first one's new lock.
    const std::string breaking = held + std::string(kBreaking);
    try {
      dir.create_new(breaking, mode);
    } catch (const Error&) {
      return std::nullopt;
    }
    if (const std::optional<Owner> still = owner_in(dir, held); still && still->gone()) dir.unlink(held);
    dir.unlink(breaking);
  }
  return std::nullopt;
}

}  // namespace

bool LockFile::try_take(const Dir& dir, const std::string& name, std::vector<LockFile>& held, bool group) {
  const mode_t mode = group ? 0660 : 0600;
  for (int i = 0; i < kTries; ++i) {
    File file = dir.open_or_create(name, mode);
    require_ours(file, group);
    const Flock state = try_flock_of(dir.os(), file);
    if (state == Flock::held) return false;
    if (state == Flock::unsupported) {
      dir.os().note_once("flock",
                         fmt::format("{}: this file system has no flock; lock files made exclusively "
                                     "keep runs apart",
                                     dir.path()));
      dir.unlink(name);
      const std::string exclusive = name + std::string(kHeld);
      std::optional<File> made = create_lock(dir, exclusive, mode);
      if (!made) return false;
      held.push_back(LockFile(dir, exclusive, std::move(*made)));
      return true;
    }
    if (dir.leads_to(name, file)) {
      held.push_back(LockFile(dir, name, std::move(file)));
      try {  // the owner is only for messages
        held.back().file_.truncate(0);
        held.back().file_.write(bytes_of(Owner::self().text()), 0);
      } catch (const Error&) {
      }
      return true;
    }
    // The previous holder removed the file between our open and our lock:
    // what we hold is no longer in the directory.
    std::this_thread::sleep_for(std::chrono::milliseconds(i < 5 ? 0 : 2));
  }
  throw Error(dir.path_of(name),
              "has a different inode each time, so locks on this file system do not work; use another one "
              "(FUSE: mount with use_ino or noforget, union file systems: their upper layer)");
}

bool LockFile::try_take(Os& os, const std::string& path, std::vector<LockFile>& held) {
  return try_take(Dir::open(os, parent_of(path)), name_of(path), held);
}

LockFile::~LockFile() {
  if (file_.fd() < 0) return;  // moved from
  try {
    if (dir_.leads_to(name_, file_)) dir_.unlink(name_);
  } catch (const Error&) {
  }
}

std::string LockFile::holder(const Dir& dir, const std::string& name) {
  const std::string exclusive = name + std::string(kHeld);
  try {
    if (dir.exists(exclusive)) {
      const std::optional<Owner> owner = owner_in(dir, exclusive);
      return fmt::format("{}; if no such process runs any more, remove {}",
                         owner ? owner->described() : "an unknown process", dir.path_of(exclusive));
    }
    if (const std::string process = flock_holder(dir.open_read(name)); !process.empty()) return process;
  } catch (const Error&) {
  }
  const std::optional<Owner> owner = owner_in(dir, name);
  return owner ? owner->described() : "another process";
}

std::string LockFile::lock_of(std::string_view entry) {
  if (entry.ends_with(kHeld)) entry.remove_suffix(kHeld.size());
  return std::string(entry);
}

void refuse_without_flock(const std::string& path) {
  throw Error(path,
              "this file system has no flock, which the engine's own protocol needs; mount it with flock "
              "(Lustre: -o flock, NFS: version 4 or -o local_lock=flock), or use a local disk");
}

bool try_flock(Os& os, const File& file) {
  const Flock state = try_flock_of(os, file);
  if (state == Flock::unsupported) refuse_without_flock(file.path());
  return state == Flock::taken;
}

std::string flock_holder(const File& file) {
  const struct stat st = file.status();
  const std::string wanted = fmt::format("{:02x}:{:02x}:{}", major(st.st_dev), minor(st.st_dev), st.st_ino);
  std::ifstream locks("/proc/locks");
  for (std::string line; std::getline(locks, line);) {
    std::istringstream in(line);
    std::string number, kind, advisory, access, place;
    pid_t pid = 0;
    // Lines with "->" are of processes that wait, and do not parse.
    if (!(in >> number >> kind >> advisory >> access >> pid >> place)) continue;
    if (kind != "FLOCK" || place != wanted || pid <= 0) continue;
    struct stat process {};
    const bool known = ::stat(fmt::format("/proc/{}", pid).c_str(), &process) == 0;
    return known ? fmt::format("process {} of {}", pid, user_name(process.st_uid))
                 : fmt::format("process {}", pid);
  }
  return "";
}

void wait_until(const Context& context, const std::function<bool()>& take,
                const std::function<std::string()>& message) {
  const auto start = std::chrono::steady_clock::now();
  // Short pauses first: most locks are held briefly.
  constexpr std::chrono::microseconds kLongest = std::chrono::milliseconds(20);
  std::chrono::microseconds pause(100);
  for (bool said = false; !take(); pause = std::min(2 * pause, kLongest)) {
    context.check_stop();
    if (!said && std::chrono::steady_clock::now() - start > std::chrono::seconds(1)) {
      context.progress.say(message());
      said = true;
    }
    std::this_thread::sleep_for(pause);
  }
}

std::vector<LockFile> wait_for_lock(const Context& context, const Dir& dir, const std::string& name) {
  std::vector<LockFile> held;
  wait_until(
      context, [&] { return LockFile::try_take(dir, name, held, context.group_shared); },
      [&] {
        return fmt::format("waiting for {}, held by {}", dir.path_of(name), LockFile::holder(dir, name));
      });
  return held;
}

std::vector<LockFile> wait_for_lock(const Context& context, const std::string& path) {
  return wait_for_lock(context, Dir::open(context.os, parent_of(path)), name_of(path));
}

}  // namespace planesmith
