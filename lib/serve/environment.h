// How the engine is told which files to open: its environment, read as it reads it and written so that it
// finds ours (ENGINE.md sections 1 and 4).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/engine.h"

namespace planesmith {

using Environment = std::map<std::string, std::string>;

inline constexpr std::string_view kPrefix = "VLLM_MOE_W2";

// An env file as docker reads it: NAME=VALUE, the value as it stands; blank lines and those that begin with #
// are skipped; a bare NAME is taken from `inherited`. Errors (usage): a line that docker would refuse.
Environment parse_env_file(std::string_view text, const std::string& path, const Environment& inherited);
// "NAME=VALUE"; Error (usage): it is not that.
std::pair<std::string, std::string> parse_assignment(std::string_view text, std::string_view option);

// What the engine takes from an environment. Values that decide about nothing here are left out.
struct EngineSettings {
  bool enabled = false;                     // VLLM_MOE_W2
  std::optional<std::string> planes_cache;  // as it stands; none: no cache
  std::string store_dir, ckpt_id;           // stripped; empty: not given
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  format::ModeSwitches switches;
  double delta_gb = 2, base_cache_gb = 0;  // GiB
  bool delta_auto = false;                 // DELTA_GB=auto
  std::optional<std::uint64_t> num_layers;
  bool draft = false;
  std::vector<std::uint64_t> ks;  // none given: kDefaultKs

  format::Mode mode() const { return format::mode_of(switches); }
};

// What is wrong with a configuration.
struct Findings {
  std::vector<std::string>
      problems;  // with these the engine does not start, or reads the checkpoint's experts
  std::vector<std::string> warnings;  // worth knowing before it costs a boot
  std::vector<std::string> notes;     // figures
};

// Values that the engine could not read are problems, and count as not given.
EngineSettings read_settings(const Environment& environment, Findings& findings);

// Warnings of names that the engine does not read though they look like ones that decide about files
// (VLLM_MOE_W2_PLANE_CACHE), and of values in quotes, which docker would pass on.
void find_misspelled(const Environment& environment, Findings& findings);

// What our side must print: ENGINE.md section 4.
struct Serving {
  format::Mode mode = format::Mode::resident;
  std::string ckpt_id;
  std::string planes_cache, store;  // absolute; empty: not used
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  std::optional<format::Geometry> geometry{};  // with drafts > 0: NUM_LAYERS
  std::string ks{};                            // empty: the default does
  std::string base_cache_gb{}, delta_gb{};     // empty: not set; host modes need the first
};
Environment environment_of(const Serving& serving);

std::string shell_lines(const Environment& environment);   // "export NAME='value'\n", fit for eval
std::string docker_lines(const Environment& environment);  // "NAME=value\n"; Error: a value of several lines

}  // namespace planesmith
