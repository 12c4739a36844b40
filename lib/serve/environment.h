// The engine's environment, which tells it which files to open: parsed as the engine does it, and written so
// that it finds our files (ENGINE.md sections 1 and 4).
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

// Parses an env file as docker does: NAME=VALUE, the value verbatim; blank lines and lines that begin with #
// are skipped; a bare NAME takes its value from `inherited`. Error (usage): a line that docker would refuse.
Environment parse_env_file(std::string_view text, const std::string& path, const Environment& inherited);
// Parses "NAME=VALUE"; `option` is for messages. Error (usage): anything else.
std::pair<std::string, std::string> parse_assignment(std::string_view text, std::string_view option);

// What the engine takes from an environment, as far as it decides about files.
struct EngineSettings {
  bool enabled = false;                     // VLLM_MOE_W2
  std::optional<std::string> planes_cache;  // not stripped; none: no cache
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

// Remarks about a configuration.
struct Findings {
  // The engine does not start, or reads the checkpoint's experts at every start.
  std::vector<std::string> problems;
  std::vector<std::string> warnings;  // likely mistakes
  std::vector<std::string> notes;     // figures
};

// Values that the engine could not parse become problems and count as not given.
EngineSettings read_settings(const Environment& environment, Findings& findings);

// Warns of names that the engine ignores but that resemble its variables (VLLM_MOE_W2_PLANE_CACHE), and of
// values in quotes, which docker passes on.
void find_misspelled(const Environment& environment, Findings& findings);

// Warns of variables that decide about files, are set in `own` and would stay as they are there when a shell
// evaluates `printed`.
void find_left_over(const Environment& own, const Environment& printed, Findings& findings);

// What ENGINE.md section 4 says must be printed.
struct Serving {
  format::Mode mode = format::Mode::resident;
  std::string ckpt_id;
  std::string planes_cache, store;  // absolute; empty: not used
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  std::optional<format::Geometry> geometry{};  // needed for NUM_LAYERS if drafts > 0
  std::string ks{};                            // empty: the engine's default suffices
  std::string base_cache_gb{}, delta_gb{};     // empty: not set; host modes need the first
};
Environment environment_of(const Serving& serving);

std::string shell_lines(const Environment& environment);   // "export NAME='value'\n", fit for eval
std::string docker_lines(const Environment& environment);  // "NAME=value\n"; Error: a value of several lines

}  // namespace planesmith
