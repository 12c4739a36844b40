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
  Environment environment;                 // with {planes_cache} replaced; without variables in left_out
  std::vector<std::string> arguments;      // of the server, one word each
  std::optional<std::uint64_t> gpus;       // of `requires`
  std::optional<std::uint64_t> gpu_bytes;  // memory of one GPU; vram_gb is in GiB
  bool names_cache = false;                // whether it uses {planes_cache}
  std::vector<std::string> left_out;       // variables that need {planes_cache} where it is not known
};

// planes_cache: the path to put in place of {planes_cache}; empty: not known. Errors: not YAML, or not a
// recipe.
Recipe parse_recipe(const std::string& text, const std::string& path, const std::string& planes_cache);

// The value of the last of these options among a server's arguments, as "--option value" or "--option=value".
std::optional<std::string> argument_value(const std::vector<std::string>& arguments,
                                          std::initializer_list<std::string_view> options);

}  // namespace planesmith
