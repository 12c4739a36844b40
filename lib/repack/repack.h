// repack-experts build: a copy of a checkpoint whose expert weights take fewer values; everything else stays.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "codebook/figures.h"
#include "repack/repack_run.h"
#include "repack/repack_target.h"

namespace planesmith {

struct RepackOptions {
  std::string source, target;  // directories
  Granularity granularity = Granularity::tensor_sym;
  int levels = 4;
  LinkMode link = LinkMode::sym;  // of the files without expert weights
  bool force = false;             // rebuild everything, whatever the target holds
  bool recheck = false;           // compare the content of finished files, not only their sizes
  bool dry_run = false;           // check and plan, but neither read weights nor write anything
  bool check_space = true;        // refuse what does not fit into the free space
  std::string isa = "auto";
};

struct RepackResult {
  struct File {
    RepackFile plan;
    bool was_there = false;              // from an earlier run
    std::optional<FileFigures> figures;  // none in a dry run where it is still to be written
  };
  std::vector<File> files;               // with expert weights
  std::vector<NamedSize> others;         // those without
  std::vector<std::string> left_out;     // with the reason
  std::uint64_t to_write = 0, free = 0;  // bytes; free: at the target
  RepackMemory memory;
};

// Errors: not an MXFP4 checkpoint; an unusable target; too little free space; any error of reading and
// writing. Files finished before an error or a stop are kept and not written again.
RepackResult repack(const Context& context, const RepackOptions& options);

}  // namespace planesmith
