// planesmith-bench [--only TEXT] [--threads LIST [--html FILE]] [--dir DIRECTORY] [--json FILE]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "base/json.h"
#include "base/machine.h"
#include "base/version.h"
#include "bench/bench.h"
#include "bench/scaling.h"
#include "page/page.h"

namespace planesmith::bench {
namespace {

struct Benchmark {
  const char* name;
  void (*run)(Runner&);
};
constexpr Benchmark kBenchmarks[] = {
    {"programs", programs},  // first: a child's peak memory begins with what its parent had
    {"kernels", kernels},
    {"builders", builders},
    {"verification", verification},
    {"repack", repack_experts},
    {"packing", packing},
#ifdef PLANESMITH_HAVE_CUDA
    {"cuda", cuda},
#endif
};

// "model name" of /proc/cpuinfo.
std::string processor() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) return line.substr(line.find(':') + 2);
  return "unknown";
}

Json results(const std::vector<Row>& rows, const std::vector<Series>& series) {
  Json list = Json::array();
  for (const Row& row : rows)
    list.push_back({{"name", row.name},
                    {"bytes", row.bytes},
                    {"work", row.work},
                    {"yardstick", row.yardstick},
                    {"ratio", row.ratio},
                    {"target", row.target}});
  return {{"processor", processor()},
          {"threads", hardware_threads()},
          {"version", version()},
          {"rows", list},
          {"scaling", to_json(series)}};
}

}  // namespace

}  // namespace planesmith::bench

int main(int argc, char** argv) {
  using namespace planesmith;
  CLI::App app("Measures kernels and programs against the machine's own copying.");
  bench::Settings settings;
  std::string json, html, threads;
  settings.directory = std::filesystem::temp_directory_path();
  settings.headers = "../shared/real";
  app.add_option("--only", settings.only, "Only measurements whose name contains this");
  app.add_option("--dir", settings.directory,
                 "Directory on a disk to write to and read from; 3 GiB are taken for a while")
      ->capture_default_str();
  app.add_option("--sharing-dir", settings.sharing,
                 "Directory on a file system that shares blocks (XFS, Btrfs). Default: that of --dir");
  app.add_option("--headers", settings.headers,
                 "Directory with the headers of a real model: config.json, *.safetensors.json, or "
                 "headers.tar.xz of them")
      ->capture_default_str();
  CLI::Option* const scaling = app.add_option(
      "--threads", threads,
      "Instead: each program's rate with so many threads, like 1,2,4,8,16,all, beside a copy's with as many");
  app.add_option("--html", html, "Write a chart of these rates to this file")->needs(scaling);
  app.add_option("--json", json, "Write the results to this file");
  CLI11_PARSE(app, argc, argv);
  if (settings.sharing.empty()) settings.sharing = settings.directory;
  fmt::print("{}, {} threads\n", bench::processor(), hardware_threads());
  if (threads.empty()) fmt::print("{:<64} {:>12} {:>12} {:>7}\n", "", "work", "yardstick", "ratio");
  bench::Runner runner(settings);
  std::vector<bench::Series> series;
  try {
    if (!html.empty()) require_plotting_library();
    if (threads.empty())
      for (const bench::Benchmark& benchmark : bench::kBenchmarks) benchmark.run(runner);
    else
      series = bench::scaling(runner, bench::thread_counts(threads));
    const std::string machine = fmt::format("{}, {} threads", bench::processor(), hardware_threads());
    if (!html.empty() && !(std::ofstream(html) << bench::scaling_html(series, machine))) return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  if (!json.empty() && !(std::ofstream(json) << pretty(bench::results(runner.rows(), series)))) return 1;
}
