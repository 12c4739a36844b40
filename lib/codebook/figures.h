// Statistics of what repacking did to a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/json.h"
#include "codebook/fit.h"

namespace planesmith {

struct FileFigures {
  std::string name;
  std::uint64_t tensors = 0;  // expert weights in the file
  Deviation deviation;        // of those
  // How many groups use each codebook, by levels_text(), in order of first use; empty for row and block32,
  // and for the identity if nothing was chosen.
  std::vector<std::pair<std::string, std::uint64_t>> codebooks;

  void count_codebook(const std::string& levels, std::uint64_t groups = 1);
};

// For parse_figures(): a later run trusts it instead of computing it again.
Json to_json(const FileFigures& figures);
// nlohmann::json's exceptions: not such a document.
FileFigures parse_figures(const Json& json);

// For --stats-out: "n_expert_tensors", "rms_err" (in units of e2m1),
// "rel_rms", "bias" and "codebooks" of each file and in total.
nlohmann::ordered_json stats_json(Granularity granularity, int levels, const std::vector<FileFigures>& files);

}  // namespace planesmith
