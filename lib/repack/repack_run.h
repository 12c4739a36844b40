// Runs the tasks of repacking on all cores in bounded memory: read, remap, hand to a sink.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/context.h"
#include "codebook/figures.h"
#include "codebook/remap.h"
#include "repack/repack_plan.h"

namespace planesmith {

struct RepackMemory {
  int workers = 1;
  std::uint64_t buffer = 0;  // bytes for each
  std::uint64_t total = 0;   // bytes for all of it
};
// As many workers as context.threads and context.memory allow. Error (usage): too little memory for one
// worker; names the smallest that works.
RepackMemory share_memory(const Context& context, Granularity granularity, const format::Geometry& geometry);

// Takes the bytes of one file, in any order and from any thread.
class RepackSink {
 public:
  virtual ~RepackSink() = default;
  virtual bool rewritable() const = 0;  // whether put() may overwrite what was put before
  virtual void put(ConstBytes bytes, std::uint64_t offset) = 0;
  virtual void finish(const FileFigures& figures) = 0;  // once, after the last put
};
using MakeSink = std::function<std::unique_ptr<RepackSink>(const RepackFile& file)>;

struct RepackRun {
  std::string directory;  // of the checkpoint
  const std::vector<RepackFile>& files;
  const Remapper& remapper;
  bool list_codebooks;  // in the figures
  RepackMemory memory;
};
// Processes the files for which chosen[i] is set. Files begin in order, and at most `most_open` are open at a
// time.
void run_repack(const Context& context, const RepackRun& run, const std::vector<bool>& chosen,
                std::size_t most_open, const MakeSink& make);

}  // namespace planesmith
