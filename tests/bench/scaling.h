// Rates over thread counts (planesmith-bench --threads).
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "bench/bench.h"

namespace planesmith::bench {

struct Point {
  int threads;
  double rate, yardstick;  // GB/s, read and written
  double time_ratio;       // median over the pairs of work / yardstick: 1 = as fast, less = faster
};
struct Series {
  std::string name, where;  // where: "memory", "disk"
  std::string yardstick;    // "copy", "sha256sum", ...
  double target;            // what time_ratio should be at most with 16 threads
  std::vector<Point> points;
};

// "1,2,all": ascending, none twice. Error: anything else.
std::vector<int> thread_counts(const std::string& list);

// Makes a checkpoint in memory, measures what --only names, and prints results as they come.
std::vector<Series> scaling(Runner& runner, const std::vector<int>& counts);

Json to_json(const std::vector<Series>& series);

// A page with a chart for each series that needs nothing else. Error: no plotting library at build time.
std::string scaling_html(const std::vector<Series>& series, const std::string& machine);

}  // namespace planesmith::bench
