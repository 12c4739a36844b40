// Finds misspelled variables, which the engine silently ignores, and those that are set already.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "serve/environment.h"

namespace planesmith {
namespace {

// Variables that decide about files: a misspelled one costs a whole boot.
constexpr std::string_view kDeciding[] = {"PLANES_CACHE", "STORE_DIR", "CKPT_ID",     "ZERO_MODE",
                                          "DELTA",        "DELTA_GB",  "DELTA_SPLIT", "BASE_CACHE_GB",
                                          "NUM_LAYERS",   "DRAFT",     "KS"};
// Other variables that the engine reads.
constexpr std::string_view kOthers[] = {"AFRAG",
                                        "BASE_NVME_RATIO",
                                        "BASE_RAM_GB",
                                        "CUBIT_DIR",
                                        "DELTA_CAPTURE",
                                        "DELTA_CAPTURE_TICKS",
                                        "DELTA_DECAY",
                                        "DELTA_DECAY_S",
                                        "DELTA_DUMP",
                                        "DELTA_MAX_GB",
                                        "DELTA_POLICY",
                                        "DELTA_PROMOTE",
                                        "DELTA_RESERVE_GB",
                                        "DELTA_TICK_MS",
                                        "DELTA_TRACE",
                                        "DELTA_TRACE_EVERY",
                                        "DENSE_FP8",
                                        "EXACT_LAYERWISE",
                                        "FORCE_POOL",
                                        "FORCE_RESIDENT",
                                        "FUSED_UNPERMUTE",
                                        "GATE",
                                        "GATE_MAX_PROMOTE",
                                        "GATE_REFORWARD",
                                        "GATE_SIGNAL",
                                        "GATE_SPEC_MASK",
                                        "GATE_TAU",
                                        "GATE_TRACE",
                                        "KPI_EVERY",
                                        "LOOKA",
                                        "PILOT",
                                        "PILOT_CAP",
                                        "PILOT_K",
                                        "PREFILL_FP4",
                                        "PREFILL_T",
                                        "PROMO_HYST",
                                        "REPLAY_MODE",
                                        "SPEC_GUARD",
                                        "SPEC_GUARD_EMA",
                                        "STORE_THREADS",
                                        "STREAM_BUILD",
                                        "SWIGLU_CLAMP",
                                        "SWIGLU_CLAMP_FP32",
                                        "TIER_DIRECT",
                                        "TIER_PREHEAT",
                                        "TIER_SCAN",
                                        "TOPP",
                                        "TOPP_MIN",
                                        "TOPP_RENORM"};

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

// Levenshtein distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

// The variable that an unknown name was probably meant to be; empty: none is near.
std::string meant(const std::string& name) {
  const std::string text = upper(name), prefix = fmt::format("{}_", kPrefix);
  // Without the prefix, or with part of it: only long names, which hardly mean anything else.
  constexpr std::size_t kUnmistakable = 7;
  for (const std::string_view deciding : kDeciding)
    if (deciding.size() >= kUnmistakable && text.size() < prefix.size() + deciding.size() &&
        (text == deciding || text.ends_with(fmt::format("_{}", deciding))) &&
        (text == deciding || prefix.find(text.substr(0, text.size() - deciding.size())) != prefix.npos))
      return prefix + std::string(deciding);
  if (distance(text, kPrefix) <= 1 && text.size() >= kPrefix.size() - 1) return std::string(kPrefix);
  if (!text.starts_with("VLLM")) return "";
  std::string best;
  std::size_t least = 3;  // at most two slips, and fewer than the name has letters
  for (const std::string_view deciding : kDeciding) {
    const std::string whole = prefix + std::string(deciding);
    const std::size_t slips = distance(text, whole);
    if (slips < least && slips < deciding.size()) best = whole, least = slips;
  }
  return best;
}

}  // namespace

void find_misspelled(const Environment& environment, Findings& findings) {
  const auto known = [](std::string_view name) {
    if (name == kPrefix) return true;
    if (!name.starts_with(kPrefix) || name.size() <= kPrefix.size() + 1) return false;
    name.remove_prefix(kPrefix.size() + 1);
    return std::find(std::begin(kDeciding), std::end(kDeciding), name) != std::end(kDeciding) ||
           std::find(std::begin(kOthers), std::end(kOthers), name) != std::end(kOthers);
  };
  for (const auto& [name, value] : environment) {
    if (known(name)) {
      if (value.size() >= 2 && value.front() == value.back() &&
          (value.front() == '"' || value.front() == '\''))
        findings.warnings.push_back(fmt::format(
            "{}={}: the quotes are part of the value; the engine does not take them off", name, value));
      continue;
    }
    if (const std::string wanted = meant(name); !wanted.empty())
      findings.warnings.push_back(fmt::format(
          "{} is not a variable of the engine, which ignores it; did you mean {}?", name, wanted));
  }
}

void find_left_over(const Environment& own, const Environment& printed, Findings& findings) {
  for (const std::string_view deciding : kDeciding) {
    const auto found = own.find(fmt::format("{}_{}", kPrefix, deciding));
    if (found != own.end() && !printed.contains(found->first))
      findings.warnings.push_back(fmt::format(
          "{}={} is set here already and is not part of what is printed: unset it before the engine starts, "
          "which would open other files",
          found->first, found->second));
  }
}

}  // namespace planesmith
