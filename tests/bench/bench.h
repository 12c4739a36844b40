// A short benchmark runner: each measurement is a ratio to a yardstick that is timed in the same run, in
// turns, so that a noisy machine disturbs both alike. `planesmith-bench` prints a table and, with --json,
// writes what it found.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace planesmith::bench {

// Seconds that one run took. Each run should work on data that is no longer in the caches.
using Timed = std::function<double()>;

struct Row {
  std::string name;     // what was measured, and how ("mxfp4 six parts, avx512, 1 thread")
  std::uint64_t bytes;  // moved by one run: in + out; 0: it moves no bytes
  double work;          // median of the work: seconds, or what the name says
  double yardstick;     // median of the yardstick, or a limit
  double ratio;  // median over the pairs of yardstick / work: 1 = as fast, more = faster (or below the limit)
  double target;  // what the ratio should be at least; 0: no target
};

struct Settings {
  std::string only;       // measurements whose name contains this
  std::string directory;  // on a disk; what is made in it is removed
  std::string sharing;    // on a file system that shares blocks
  std::string headers;    // of a real model: config.json and *.safetensors.json
};

class Runner {
 public:
  explicit Runner(Settings settings) : settings_(std::move(settings)) {}
  const Settings& settings() const { return settings_; }
  bool wants(const std::string& name) const { return name.find(settings_.only) != std::string::npos; }
  // Whether --only may ask for measurements whose names begin so: else what they need is not made.
  bool wants_any(const std::string& beginning) const {
    return settings_.only.starts_with(beginning) || beginning.starts_with(settings_.only);
  }
  // Times work and yardstick in turns and prints a row.
  void compare(const std::string& name, std::uint64_t bytes, double target, const Timed& work,
               const Timed& yardstick, int pairs = 61);
  // A row for a value that has a limit.
  void limit(const std::string& name, double value, double most);
  // A row that cannot be measured here, and why.
  void skip(const std::string& name, const std::string& why) const;
  const std::vector<Row>& rows() const { return rows_; }

 private:
  Settings settings_;
  std::vector<Row> rows_;
};

// Seconds.
double elapsed(const std::function<void()>& work);
// Processor time of all threads: what counts where others compete for the processors and nothing is waited
// for.
double processor_time(const std::function<void()>& work);
// Runs work(worker) on `threads` threads at once; processor time of the busiest. On an idle machine that is
// elapsed time; where others compete it leaves out their turns. For work that never waits.
double busiest_thread(int threads, const std::function<void(int worker)>& work);

// Bytes in huge pages where the system has them, written once.
class Arena {
 public:
  explicit Arena(std::uint64_t bytes);
  Arena(const Arena&) = delete;
  ~Arena();
  std::uint8_t* data() const { return data_; }
  std::uint64_t size() const { return bytes_; }

 private:
  std::uint8_t* data_;
  std::uint64_t bytes_;
};

// A directory of our own, removed at the end.
class Directory {
 public:
  explicit Directory(const std::string& parent);
  Directory(const Directory&) = delete;
  ~Directory();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};
inline constexpr char kInMemory[] = "/dev/shm";  // where no disk is waited for

// Runs one of this build's programs to its end. Errors: it fails.
struct Usage {
  double seconds;
  std::uint64_t peak_memory;
};
Usage run_program(const std::string& name, const std::vector<std::string>& arguments);

// The benchmarks; main.cc lists them.
void kernels(Runner& runner);
void builders(Runner& runner);
void programs(Runner& runner);
void verification(Runner& runner);
void repack_experts(Runner& runner);
void packing(Runner& runner);
void cuda(Runner& runner);

}  // namespace planesmith::bench
