// What repacking did to a file, in numbers.
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
  // How many groups took which codebook, by levels_text, in order of first use; none for row and block32, and
  // none for the identity where nothing was chosen.
  std::vector<std::pair<std::string, std::uint64_t>> codebooks;

  void count_codebook(const std::string& levels, std::uint64_t groups = 1);
};

// Everything, to be read back by parse_figures: what a later run trusts instead of computing it again.
Json to_json(const FileFigures& figures);
// Error (json.hpp's): not such a document.
FileFigures parse_figures(const Json& json);

// For --stats-out: per file "n_expert_tensors", "rms_err" (in units of e2m1), "rel_rms", "bias", "codebooks";
// and the same of all together.
nlohmann::ordered_json stats_json(Granularity granularity, int levels, const std::vector<FileFigures>& files);

}  // namespace planesmith
