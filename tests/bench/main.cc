// planesmith-bench [--only TEXT] [--json FILE]
#include <fmt/format.h>
#include <sys/mman.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>
#include <fstream>
#include <new>

#include "base/json.h"
#include "base/parallel.h"
#include "base/size.h"
#include "base/version.h"
#include "bench/bench.h"

namespace planesmith::bench {
namespace {

struct Benchmark {
  const char* name;
  void (*run)(Runner&);
};
constexpr Benchmark kBenchmarks[] = {
    {"kernels", kernels},
    {"builders", builders},
    {"verification", verification},
    {"repack", repack_experts},
    {"packing", packing},
#ifdef PLANESMITH_HAVE_CUDA
    {"cuda", cuda},
#endif
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// "model name" of /proc/cpuinfo.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

Json to_json(const std::vector<Row>& rows) {
  Json list = Json::array();
  for (const Row& row : rows)
    list.push_back({{"name", row.name},
                    {"bytes", row.bytes},
                    {"seconds", row.seconds},
                    {"yardstick_seconds", row.yardstick},
                    {"ratio", row.ratio},
                    {"target", row.target}});
  return {
      {"processor", processor()}, {"threads", hardware_threads()}, {"version", version()}, {"rows", list}};
}

}  // namespace

void Runner::compare(const std::string& name, std::uint64_t bytes, double target, const Timed& work,
                     const Timed& yardstick, int pairs) {
  if (!wants(name)) return;
  std::vector<double> seconds, reference, ratios;
  work();
  yardstick();
  for (int pair = 0; pair < pairs; ++pair) {
    seconds.push_back(work());
    reference.push_back(yardstick());
    ratios.push_back(reference.back() / seconds.back());
  }
  const Row row{name, bytes, median(seconds), median(reference), median(ratios), target};
  const auto rate = [&](double s) { return static_cast<double>(bytes) / s / 1e9; };
  fmt::print("{:<52} {:>7.2f} GB/s {:>7.2f} GB/s {:>7.3f}{}\n", name, rate(row.seconds), rate(row.yardstick),
             row.ratio,
             target == 0 ? "" : fmt::format("  {} {:.2f}", row.ratio >= target ? "meets" : "BELOW", target));
  std::fflush(stdout);
  rows_.push_back(row);
}

double busiest_thread(int threads, const std::function<void(int)>& work) {
  std::vector<double> seconds(static_cast<std::size_t>(threads));
  const auto now = [] {
    timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
  };
  parallel_for(seconds.size(), threads, [&](std::size_t index, int) {
    const double start = now();
    work(static_cast<int>(index));
    seconds[index] = now() - start;
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

}  // namespace planesmith::bench

int main(int argc, char** argv) {
  using namespace planesmith;
  CLI::App app("Measures kernels and programs against the machine's own copying.");
  std::string only, json;
  app.add_option("--only", only, "only measurements whose name contains this");
  app.add_option("--json", json, "write the results to this file");
  CLI11_PARSE(app, argc, argv);
  fmt::print("{}, {} threads\n{:<52} {:>12} {:>12} {:>7}\n", bench::processor(), hardware_threads(), "",
             "work", "yardstick", "ratio");
  bench::Runner runner(only);
  for (const bench::Benchmark& benchmark : bench::kBenchmarks) benchmark.run(runner);
  if (!json.empty() && !(std::ofstream(json) << pretty(bench::to_json(runner.rows())))) return 1;
}
