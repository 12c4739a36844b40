// Flag values common to several programs.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/pack.h"
#include "quant/backend.h"

namespace planesmith {

void add_isa_flag(CLI::App& app, std::string& isa);

struct BackendFlags {
  std::string backend = "auto", isa = "auto";
  std::optional<std::string> gpus;  // none: all
};
// --backend, --gpus, --isa.
void add_backend_flags(CLI::App& app, BackendFlags& flags);
BackendChoice backend_of(const BackendFlags& flags);

// Type names of options whose values are tiers or modes, for --help, completion and suggestions.
std::string tiers_type();
std::string modes_type();

// --profile: a profile's name (the installed ones are offered) or a file.
CLI::Option* add_profile_flag(CLI::App& app, std::string& profile, const std::string& about);

// --rank: a number or all.
CLI::Option* add_rank_flag(CLI::App& app, std::string& rank, const std::string& about);

// A rank, or none for "all". Error (usage): anything else.
std::optional<std::uint64_t> parse_rank(const std::string& text);

// Parses "base,delta", in that order, without duplicates. Error (usage): anything else.
std::vector<format::Tier> parse_tiers(const std::string& text);

}  // namespace planesmith
