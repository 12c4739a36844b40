// Flags and flow common to build-planescache and build-fp4-packs: a checkpoint in, caches and packs out.
#pragma once

#include <optional>
#include <string>

#include "common/file_flags.h"
#include "common/flag_values.h"
#include "common/identity_flags.h"
#include "common/output_flags.h"
#include "common/program.h"
#include "format/planescache.h"
#include "pipeline/build.h"

namespace planesmith {

struct BuildFlags {
  std::string checkpoint, out;
  std::uint64_t world = 1, drafts = 0;
  std::string rank = "all", zero_mode = "auto";
  std::optional<std::string> layers;  // none: all
  BackendFlags backend;
  IdentityOptions identity;
  FileFlags files;
  bool force = false, recheck = false, dry_run = false, estimate = false, wait = false, json = false;
  OutputFlags output;
};

// --for, --world, --rank, --zero-mode, --layers, --drafts, -f, -n, --estimate, --recheck, --wait, --json,
// --backend, --gpus, --isa, --group-shared, --no-space-check.
void add_build_flags(CLI::App& app, BuildFlags& flags);

Trust trust_of(const BuildFlags& flags);

// Opens the checkpoint, plans, builds (not in a dry run) and prints the plan or the report. Fills in
// target.ckpt_id, source and trust. Returns the exit status.
int run_build(Context& context, const BuildFlags& flags, BuildTarget target);

}  // namespace planesmith
