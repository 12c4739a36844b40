// A short benchmark runner: each measurement is a ratio to a yardstick that is timed in the same run, in
// turns, so that a noisy machine disturbs both alike. `planesmith-bench` prints a table and, with --json,
// writes what it found.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace planesmith::bench {

// Seconds that one go took. Each go should work on data that the caches no longer hold.
using Timed = std::function<double()>;

struct Row {
  std::string name;     // what was measured, and how ("mxfp4 six parts, avx512, 1 thread")
  std::uint64_t bytes;  // moved by one go: in + out
  double seconds;       // median of the work
  double yardstick;     // median of the yardstick
  double ratio;         // median over the pairs of yardstick / work: 1 = as fast
  double target;        // what the ratio should be at least; 0: no target
};

class Runner {
 public:
  explicit Runner(std::string only) : only_(std::move(only)) {}
  // Whether --only asks for measurements whose name contains its text.
  bool wants(const std::string& name) const { return name.find(only_) != std::string::npos; }
  // Times work and yardstick in turns and prints a row.
  void compare(const std::string& name, std::uint64_t bytes, double target, const Timed& work,
               const Timed& yardstick, int pairs = 61);
  const std::vector<Row>& rows() const { return rows_; }

 private:
  std::string only_;
  std::vector<Row> rows_;
};

// Runs work(worker) on `threads` threads at once; seconds of processor time of the busiest. On an idle
// machine that is elapsed time; where others compete for the cores it leaves out their turns. For work that
// never waits.
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

// The benchmarks; main.cc lists them.
void kernels(Runner& runner);
void builders(Runner& runner);
void verification(Runner& runner);
void repack_experts(Runner& runner);
void packing(Runner& runner);
void cuda(Runner& runner);

}  // namespace planesmith::bench
