// An operating system that fails on purpose. Each fault test gives one to the code under test in its Context.
//
// Ways to break things, on a directory whose files are real:
//  - the nth operation that can fail with a given errno does (and, where the fault lasts, every later one);
//  - the process ends after the nth operation that changes something: from then on every call fails and does
//    nothing. lose_power() then takes away what was not synced. No exception is thrown for it, so that
//    destructors and other threads run into the same wall; what the code reports afterwards is lost with it;
//  - calls that the storage does not have always fail.
// In addition, transfers can be short and calls interrupted throughout.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "base/memory_files.h"
#include "base/os.h"
#include "fault/durable_tree.h"

struct Fault {
  enum class Kind { none, error, crash } kind = Kind::none;
  std::uint64_t nth = 0;  // counted from 1, among the operations this fault can meet
  int error = 0;
  bool lasting = false;          // a full disk stays full
  bool short_transfers = false;  // every read and write moves about half of what it could
  bool interruptions = false;    // every call that a signal can interrupt is, once, before it is done
  std::map<std::string, int, std::less<>> missing =
      {};  // calls by name ("flock", "sync directory"): their errno

  static Fault fail(std::uint64_t nth, int error, bool lasting = false) {
    return {.kind = Kind::error, .nth = nth, .error = error, .lasting = lasting};
  }
  static Fault crash_after(std::uint64_t nth) { return {.kind = Kind::crash, .nth = nth}; }
  static Fault without(std::map<std::string, int, std::less<>> calls) {
    return {.missing = std::move(calls)};
  }
  static Fault slow_and_interrupted() { return {.short_transfers = true, .interruptions = true}; }
};

class FaultOs : public planesmith::Os, public planesmith::MemoryFiles {
 public:
  // root: an existing directory, the one that lose_power() acts on.
  FaultOs(const std::string& root, Fault fault) : tree_(root), fault_(fault) {}

  bool hit() const { return hit_; }                         // the fault came about
  bool missed() const { return missed_; }                   // a missing call was tried
  std::uint64_t operations() const { return operations_; }  // of any kind, so far
  const std::string& hit_at() const { return hit_at_; }     // "rename /x/y.tmp": for messages
  void lose_power(Loss loss, unsigned seed = 0) { tree_.lose_power(loss, seed); }

  int open(const char* path, int flags, mode_t mode) override;
  int close(int fd) override;
  ssize_t pread(int fd, void* to, std::size_t n, off_t offset) override;
  ssize_t pwrite(int fd, const void* from, std::size_t n, off_t offset) override;
  int store(int fd, void* to, const void* from, std::size_t n) override;
  ssize_t read(int fd, void* to, std::size_t n) override;
  ssize_t write(int fd, const void* from, std::size_t n) override;
  int fsync(int fd) override;
  int fdatasync(int fd) override;
  int ftruncate(int fd, off_t size) override;
  int fstat(int fd, struct stat* out) override;
  int stat(const char* path, struct stat* out) override;
  int lstat(const char* path, struct stat* out) override;
  int statvfs(const char* path, struct statvfs* out) override;
  int access(const char* path, int mode) override;
  int rename(const char* from, const char* to) override;
  int link(const char* from, const char* to) override;
  int unlink(const char* path) override;
  int rmdir(const char* path) override;
  int mkdir(const char* path, mode_t mode) override;
  int chmod(const char* path, mode_t mode) override;
  int symlink(const char* target, const char* path) override;
  int fchmod(int fd, mode_t mode) override;
  int openat2(int dir, const char* path, int flags, mode_t mode, std::uint64_t resolve) override;
  int openat(int dir, const char* path, int flags, mode_t mode) override;
  int fstatat(int dir, const char* path, struct stat* out, int flags) override;
  int mkdirat(int dir, const char* path, mode_t mode) override;
  int renameat(int from_dir, const char* from, int to_dir, const char* to) override;
  int linkat(int from_dir, const char* from, int to_dir, const char* to) override;
  int unlinkat(int dir, const char* path, int flags) override;
  int symlinkat(const char* target, int dir, const char* path) override;
  ssize_t readlinkat(int dir, const char* path, char* to, std::size_t n) override;
  int flock(int fd, int operation) override;
  int clone_range(int to, std::uint64_t to_offset, int from, std::uint64_t from_offset,
                  std::uint64_t n) override;
  off_t lseek(int fd, off_t offset, int whence) override;
  int fadvise(int fd, off_t offset, off_t n, int advice) override;
  DIR* opendir(const char* path) override;
  DIR* fdopendir(int fd) override;
  struct dirent* readdir(DIR* dir) override;
  int closedir(DIR* dir) override;

 private:
  struct Call;
  template <typename Do>
  auto guarded(const Call& call, Do&& work) -> decltype(work());
  bool refused(const Call& call);
  template <typename Open>
  int open_file(const char* call, const std::string& path, const std::string& shown, int flags, Open&& open);
  void count_down(const Call& call);

  // One operation at a time, so that the model sees them in the order in which they happen.
  std::recursive_mutex mutex_;
  DurableTree tree_;
  const Fault fault_;
  std::uint64_t operations_ = 0, met_ = 0;
  bool hit_ = false, missed_ = false, dead_ = false;
  std::string hit_at_;
  std::set<std::string> interrupted_;  // calls waiting to be repeated
};

// The two loops that a fault test is made of. `prepare` makes a fresh tree under root; `work` is what is
// tested (what it throws as planesmith::Error is swallowed where the fault came about, and passed on where
// not); `after` checks, with the real operating system, what is left, and usually runs the work again. They
// return how many faults there are. With FAULT_STRIDE=n in the environment the first 16 are tried and then
// every nth, where a sanitizer makes each slow.

// Fails the 1st, 2nd, ... operation that can fail with this errno, until a run ends without meeting its
// fault.
std::uint64_t fail_each(const std::string& root, int error, bool lasting,
                        const std::function<void()>& prepare,
                        const std::function<void(planesmith::Os&)>& work,
                        const std::function<void(const FaultOs&)>& after);

// Ends the process after the 1st, 2nd, ... operation that changes something, with every kind of loss.
// `missing`: calls that the storage does not have; step: only every so many operations, where all of them
// take too long.
std::uint64_t crash_each(const std::string& root, const std::function<void()>& prepare,
                         const std::function<void(planesmith::Os&)>& work,
                         const std::function<void(const FaultOs&)>& after,
                         const std::map<std::string, int, std::less<>>& missing = {}, std::uint64_t step = 1);
