// --for, --fp4 and --tiers: which files to make for which mode of the engine.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "checkpoint/model.h"
#include "plan/plan.h"

namespace planesmith {

struct FileFlags {
  std::optional<std::string> mode, fp4, tiers;
  bool has_cache = false,
       has_store = false;  // whether the command line has a place for a planes cache, for packs
};

CLI::Option* add_mode_flag(CLI::App& app, FileFlags& flags);
CLI::Option* add_tiers_flag(CLI::App& app, FileFlags& flags);

// The tiers of --tiers, else the mode's packs, else the builders' default. has_cache: the engine reads planes
// caches of such models.
std::vector<format::Tier> chosen_tiers(const FileFlags& flags, bool has_cache);

// Fills in mode, cache and tiers. Error (usage): nothing is left to build. Warns of files that the engine
// will not read.
void choose_files(const Context& context, const FileFlags& flags, const Model& model, PlanRequest& request);

}  // namespace planesmith
