// The engine's own recipes: YAML with `requires`, `env` and `serve_args` (ENGINE.md section 6).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/environment.h"

namespace planesmith {

struct Recipe {
  Environment environment;                 // {planes_cache} put in; left out where it is needed and not known
  std::vector<std::string> arguments;      // of the server, one word each
  std::optional<std::uint64_t> gpus;       // of `requires`
  std::optional<std::uint64_t> gpu_bytes;  // memory of one of them: vram_gb, in GiB
  bool names_cache = false;                // {planes_cache} is in it
  std::vector<std::string> left_out;       // variables that need {planes_cache} while none is given
};

// planes_cache: what {planes_cache} stands for; empty: not known. Errors: not YAML, or not a recipe.
Recipe parse_recipe(const std::string& text, const std::string& path, const std::string& planes_cache);

// The value of the last of these options among a server's arguments, as "--option value" or "--option=value".
std::optional<std::string> argument_value(const std::vector<std::string>& arguments,
                                          std::initializer_list<std::string_view> options);

}  // namespace planesmith
