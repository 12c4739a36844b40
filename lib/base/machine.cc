#include "base/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "base/size.h"

namespace planesmith {
namespace {

constexpr char kCgroups[] = "/sys/fs/cgroup";

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Up to two numbers from the start of a file; "max" and -1, which mean no limit, end them.
std::vector<double> numbers_in(const std::string& path) {
  std::istringstream text(text_of(path));
  std::vector<double> numbers;
  for (std::string word; numbers.size() < 2 && text >> word;) {
    try {
      const double number = std::stod(word);
      if (number <= 0) break;
      numbers.push_back(number);
    } catch (const std::exception&) {
      break;
    }
  }
  return numbers;
}

template <typename Limit>
void tighten(Limit& limit, Limit found) {
  if (limit == 0 || found < limit) limit = found;
}

void read_group(const std::string& directory, CgroupLimits& limits) {
  if (const auto cpu = numbers_in(directory + "/cpu.max"); cpu.size() == 2)
    tighten(limits.cpus, cpu[0] / cpu[1]);
  const auto quota = numbers_in(directory + "/cpu.cfs_quota_us");
  const auto period = numbers_in(directory + "/cpu.cfs_period_us");
  if (!quota.empty() && !period.empty()) tighten(limits.cpus, quota[0] / period[0]);
  for (const char* name : {"/memory.max", "/memory.high", "/memory.limit_in_bytes"})
    // Version 1 writes "no limit" as a number near 2^63.
    if (const auto bytes = numbers_in(directory + name); !bytes.empty() && bytes[0] < 0x1p60)
      tighten(limits.memory, static_cast<std::uint64_t>(bytes[0]));
}

int processors_of_affinity() {
  // The mask of a machine with many processors does not fit into cpu_set_t.
  for (int bits = CPU_SETSIZE; bits <= CPU_SETSIZE << 8; bits *= 2) {
    cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(bits));
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(bits));
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return static_cast<int>(std::thread::hardware_concurrency());
}

const CgroupLimits& own_limits() {
  static const CgroupLimits limits = cgroup_limits(text_of("/proc/self/cgroup"), kCgroups);
  return limits;
}

// The limit on open files, after raising the soft one to the hard one.
std::uint64_t most_open_files() {
  struct rlimit limit {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  if (limit.rlim_cur < limit.rlim_max) {
    struct rlimit raised = limit;
    raised.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  return limit.rlim_cur == RLIM_INFINITY ? std::uint64_t{1} << 20 : limit.rlim_cur;
}

}  // namespace

CgroupLimits cgroup_limits(const std::string& membership, const std::string& root) {
  CgroupLimits limits;
  std::istringstream lines(membership);
  for (std::string line; std::getline(lines, line);) {  // "0::/user.slice", "4:cpu,cpuacct:/docker/1f"
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string mount = controllers.empty() ? root : root + "/" + controllers;
    // Inside a container the path may be the host's and not exist here; the top of the mount counts then.
    std::filesystem::path group = std::filesystem::path(line.substr(second + 1)).lexically_normal();
    for (;; group = group.parent_path()) {
      read_group(mount + group.string(), limits);
      if (group == group.parent_path()) break;
    }
  }
  return limits;
}

int hardware_threads() {
  const int processors = std::max(processors_of_affinity(), 1);
  const double quota = std::ceil(own_limits().cpus);
  return quota >= 1 && quota < processors ? static_cast<int>(quota) : processors;
}

std::uint64_t machine_memory() {
  std::uint64_t most = own_limits().memory;
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page > 0)
    tighten(most, static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page));
  return most;
}

std::uint64_t default_memory() {
  const std::uint64_t half = std::max(machine_memory() / 2 / kMiB, std::uint64_t{1}) * kMiB;
  return std::min(2 * kGiB, half);
}

mode_t file_creation_mask(const char* status) {
  std::ifstream lines(status);
  for (std::string line; std::getline(lines, line);)  // "Umask:\t0022"
    if (line.starts_with("Umask:")) return static_cast<mode_t>(std::stoul(line.substr(6), nullptr, 8));
  static const mode_t mask = [] {
    const mode_t found = ::umask(077);
    ::umask(found);
    return found;
  }();
  return mask;
}

std::uint64_t open_files_left() {
  const std::uint64_t most = most_open_files();
  std::uint64_t open = 16;  // a guess where /proc is not mounted
  std::error_code error;
  if (std::filesystem::directory_iterator list("/proc/self/fd", error), end; !error) {
    open = 0;
    for (; list != end && !error; list.increment(error)) ++open;
  }
  return most > open ? most - open : 0;
}

void enlarge_descriptor_table() {
  constexpr std::uint64_t kEnough = 4096;
  const int last =
      fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, static_cast<int>(std::min(most_open_files(), kEnough)) - 1);
  if (last >= 0) ::close(last);  // the table stays as large
}

}  // namespace planesmith
