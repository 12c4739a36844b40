#include <fmt/format.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <new>

#include "base/error.h"
#include "base/parallel.h"
#include "base/size.h"
#include "bench/bench.h"

extern char** environ;

namespace planesmith::bench {
namespace {

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double clock_seconds(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

double seconds_by(clockid_t clock, const std::function<void()>& work) {
  const double start = clock_seconds(clock);
  work();
  return clock_seconds(clock) - start;
}

std::string verdict(const Row& row) {
  if (row.target == 0) return "";
  return fmt::format("  {} {:.2f}", row.ratio >= row.target ? "meets" : "BELOW", row.target);
}

}  // namespace

void Runner::compare(const std::string& name, std::uint64_t bytes, double target, const Timed& work,
                     const Timed& yardstick, int pairs) {
  if (!wants(name)) return;
  std::vector<double> values, references, ratios;
  work();
  yardstick();
  for (int pair = 0; pair < pairs; ++pair) {
    values.push_back(work());
    references.push_back(yardstick());
    ratios.push_back(references.back() / values.back());
  }
  const Row row{name, bytes, median(values), median(references), median(ratios), target};
  const auto shown = [&](double value) {
    return bytes == 0 ? fmt::format("{:.3f}     ", value)
                      : fmt::format("{:.2f} GB/s", static_cast<double>(bytes) / value / 1e9);
  };
  fmt::print("{:<64} {:>12} {:>12} {:>7.3f}{}\n", name, shown(row.work), shown(row.yardstick), row.ratio,
             verdict(row));
  std::fflush(stdout);
  rows_.push_back(row);
}

void Runner::limit(const std::string& name, double value, double most) {
  if (!wants(name)) return;
  const Row row{name, 0, value, most, most / value, 1};
  fmt::print("{:<64} {:>12.2f} {:>12.2f} {:>7.3f}{}\n", name, value, most, row.ratio, verdict(row));
  rows_.push_back(row);
}

void Runner::skip(const std::string& name, const std::string& why) const {
  if (wants(name)) fmt::print("{:<64} SKIPPED: {}\n", name, why);
}

double elapsed(const std::function<void()>& work) {
  return seconds_by(CLOCK_MONOTONIC, work);
}
double processor_time(const std::function<void()>& work) {
  return seconds_by(CLOCK_PROCESS_CPUTIME_ID, work);
}

double busiest_thread(int threads, const std::function<void(int)>& work) {
  std::vector<double> seconds(static_cast<std::size_t>(threads));
  parallel_for(seconds.size(), threads, [&](std::size_t index, int) {
    seconds[index] = seconds_by(CLOCK_THREAD_CPUTIME_ID, [&] { work(static_cast<int>(index)); });
  });
  return *std::max_element(seconds.begin(), seconds.end());
}

Arena::Arena(std::uint64_t bytes) : bytes_(round_up(bytes, 2 * kMiB)) {
  void* memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes_, MADV_HUGEPAGE);
  data_ = static_cast<std::uint8_t*>(memory);
  std::memset(data_, 1, bytes_);
}
Arena::~Arena() {
  munmap(data_, bytes_);
}

Directory::Directory(const std::string& parent) : path_(parent + "/planesmith-bench.XXXXXX") {
  if (mkdtemp(path_.data()) == nullptr) throw Error(path_, "cannot make the directory");
}
Directory::~Directory() {
  std::filesystem::remove_all(path_);
}

Usage run_program(const std::string& name, const std::vector<std::string>& arguments) {
  std::string program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / name;
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), program);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  for (const int fd : {1, 2}) posix_spawn_file_actions_addopen(&quiet, fd, "/dev/null", 1 /* O_WRONLY */, 0);
  pid_t child = 0;
  int status = 0;
  struct rusage usage {};
  const double seconds = elapsed([&] {
    if (posix_spawn(&child, program.c_str(), &quiet, nullptr, argv.data(), environ) != 0)
      throw Error(program, "cannot be started");
    wait4(child, &status, 0, &usage);
  });
  posix_spawn_file_actions_destroy(&quiet);
  if (status != 0) throw Error(program, fmt::format("failed: {}", fmt::join(arguments, " ")));
  return {seconds, static_cast<std::uint64_t>(usage.ru_maxrss) * 1024};
}

}  // namespace planesmith::bench
