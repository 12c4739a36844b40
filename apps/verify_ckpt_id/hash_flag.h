// --hash, for manifest and verify.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "manifest/make_manifest.h"

namespace planesmith {

inline CLI::Option* add_hash_flag(CLI::App& app, std::string& hash, const std::string& description) {
  return app.add_option("--hash", hash, description)->check(CLI::IsMember({"xxh3", "sha256", "both"}));
}
inline Hashes hashes_of(const std::string& hash) {
  return {.xxh3 = hash != "sha256", .sha256 = hash != "xxh3"};
}

}  // namespace planesmith
