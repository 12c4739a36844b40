// Work on several threads: every index once, errors, lanes, machines that have no more threads, limits of
// control groups, the umask, the table of descriptors.
#include "base/parallel.h"

#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/machine.h"
#include "base/size.h"
#include "peak_memory.h"
#include "scratch.h"

using namespace planesmith;

TEST_CASE("every index is done once, in ascending order on one thread") {
  for (const int threads : {-1, 0, 1, 2, 7, 300}) {
    std::vector<std::atomic<int>> times(100);
    std::atomic<bool> known{true};
    parallel_for(times.size(), threads, [&](std::size_t i, int worker) {
      ++times[i];
      if (worker < 0 || worker >= std::max(threads, 1)) known = false;
    });
    CHECK(known);
    for (const auto& each : times) CHECK(each == 1);
  }
  std::vector<std::size_t> order;
  parallel_for(3, 1, [&](std::size_t i, int) { order.push_back(i); });
  CHECK(order == std::vector<std::size_t>{0, 1, 2});
  parallel_for(0, 4, [](std::size_t, int) { FAIL("there is nothing to do"); });
}

TEST_CASE("the first error ends the work and is passed on") {
  for (const int threads : {1, 3}) {
    std::atomic<int> done{0};
    CHECK_THROWS_WITH_AS(parallel_for(1000, threads,
                                      [&](std::size_t i, int) {
                                        if (i == 10) throw std::runtime_error("ten");
                                        ++done;
                                        std::this_thread::yield();
                                      }),
                         "ten", std::runtime_error);
    CHECK(done >= 10);
    CHECK_THROWS_WITH_AS(parallel_lanes({5, 0, 100}, threads, 2,
                                        [&](std::size_t lane, std::size_t task, int) {
                                          if (lane == 2 && task == 10) throw std::runtime_error("lane");
                                        }),
                         "lane", std::runtime_error);
  }
}

TEST_CASE("lanes: every task once, a lane for each thread, helpers only where no lane is left") {
  for (const int threads : {1, 3, 8})
    for (const std::size_t most_open : {std::size_t{0}, std::size_t{2}, std::size_t{100}}) {
      const std::vector<std::size_t> tasks = {4, 0, 9, 1, 30, 5, 5, 5};
      std::mutex mutex;
      std::set<std::pair<std::size_t, std::size_t>> done;
      std::vector<int> inside(tasks.size());
      std::size_t begun = 0, most = 0;
      bool early_help = false;
      parallel_lanes(tasks, threads, most_open, [&](std::size_t lane, std::size_t task, int) {
        {
          const std::lock_guard<std::mutex> lock(mutex);
          CHECK(done.insert({lane, task}).second);
          if (task == 0) ++begun;
          ++inside[lane];
          std::size_t open = 0;
          for (const int each : inside) open += each != 0;
          most = std::max(most, open);
          // A lane counts as begun a moment before its first task does.
          if (most_open >= tasks.size() && inside[lane] > 1 && begun + static_cast<std::size_t>(threads) < 7)
            early_help = true;
        }
        std::this_thread::sleep_for(std::chrono::microseconds(100));
        const std::lock_guard<std::mutex> lock(mutex);
        --inside[lane];
      });
      CHECK(done.size() == 59);
      CHECK(most <= std::max<std::size_t>(most_open, 1));
      CHECK_FALSE(early_help);
    }
}

TEST_CASE("lanes: threads help in a lane that is alone") {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_lanes({200}, 3, 1, [&](std::size_t, std::size_t, int) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const std::lock_guard<std::mutex> lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  CHECK(threads.size() == 3);
}

TEST_CASE("a thread that cannot be started means fewer threads") {
  if (!kMemoryIsMeasurable) {
    MESSAGE("SKIPPED: sanitizers reserve more address space than a limit could leave");
    return;
  }
  peak_memory_of([] {
    struct rlimit limit {};
    limit.rlim_cur = limit.rlim_max = 600 * kMiB;  // room for some stacks of 8 MiB
    if (setrlimit(RLIMIT_AS, &limit) != 0) return false;
    std::atomic<int> done{0};
    parallel_for(500, 500, [&](std::size_t, int) {
      std::vector<char> room(1 << 20, 'x');  // some is left for the work
      done += room.back() == 'x';
    });
    return done == 500;
  });
}

TEST_CASE("limits of control groups") {
  const Scratch root;
  const auto group = [&](const std::string& path) {
    std::filesystem::create_directories(root / path);
    return root / path + "/";
  };
  put_file(group("a/b") + "cpu.max", "max 100000\n");
  put_file(root / "a/cpu.max", "150000 100000\n");
  put_file(root / "a/b/memory.max", "1073741824\n");
  put_file(root / "a/memory.max", "max\n");
  put_file(root / "cpu.max", "900000 100000\n");
  CgroupLimits limits = cgroup_limits("0::/a/b\n", root.path());
  CHECK(limits.cpus == 1.5);
  CHECK(limits.memory == kGiB);
  // A container sees the path of the host, and its own group as the root.
  limits = cgroup_limits("0::/docker/not-here\n", root.path());
  CHECK(limits.cpus == 9);
  CHECK(limits.memory == 0);
  // Version 1: a directory for each set of controllers.
  put_file(group("cpu,cpuacct/job") + "cpu.cfs_quota_us", "250000\n");
  put_file(root / "cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  put_file(group("memory/job") + "memory.limit_in_bytes", "536870912\n");
  put_file(root / "memory/memory.limit_in_bytes", "9223372036854771712\n");
  limits = cgroup_limits("4:cpu,cpuacct:/job\n9:memory:/job\n", root.path());
  CHECK(limits.cpus == 2.5);
  CHECK(limits.memory == 512 * kMiB);
  put_file(root / "cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
  CHECK(cgroup_limits("4:cpu,cpuacct:/job\n", root.path()).cpus == 0);
  for (const char* odd : {"", "\n", "0", "0::", "0::/\n\n", "x:y"}) cgroup_limits(odd, root / "none");
  CHECK(hardware_threads() >= 1);
  CHECK(default_memory() >= kMiB);
  CHECK(open_files_left() > 0);
}

// "FDSize:\t256"
std::uint64_t size_of_descriptor_table() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("FDSize:")) return std::stoull(line.substr(7));
  return 0;
}

TEST_CASE("the table of descriptors has its size before the first thread") {
  const std::uint64_t left = open_files_left();
  enlarge_descriptor_table();
  CHECK(open_files_left() == left);
  CHECK(size_of_descriptor_table() >= std::min<std::uint64_t>(left, 4096));
}

TEST_CASE("the umask is read, with and without /proc") {
  const mode_t before = ::umask(0027);
  CHECK(file_creation_mask() == 0027);
  CHECK(file_creation_mask("/no such file") == 0027);
  ::umask(0002);
  CHECK(file_creation_mask() == 0002);
  const Scratch scratch;
  put_file(scratch / "old kernel", "Name:\tx\nState:\tR\n");
  CHECK(file_creation_mask((scratch / "old kernel").c_str()) == 0027);  // set and restored once only
  CHECK(::umask(before) == 0002);
}
