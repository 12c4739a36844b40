// What repacking a checkpoint consists of: every byte of a file that is written anew belongs to exactly one
// task.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/model.h"
#include "codebook/fit.h"

namespace planesmith {

struct RepackRange {
  std::uint32_t file = 0;  // index into RepackPlan::files
  std::uint64_t offset = 0, size = 0;
};

// What one worker does at a time. Bytes are written where they were read.
struct RepackTask {
  enum class Kind {
    copy,   // bytes that are no expert weights, as they are
    group,  // the tensors that share a codebook, as far as they are in this file
    rows,   // whole rows, or whole blocks of 32
  };
  Kind kind = Kind::copy;
  std::vector<RepackRange> ranges;     // all of one file
  std::vector<RepackRange> elsewhere;  // group: its tensors in other files, which the codebook is for as well
  std::uint64_t row_bytes = 0;         // rows

  std::uint32_t file() const { return ranges.front().file; }
  std::uint64_t bytes() const;
};

struct RepackFile {
  std::string name;  // relative to the checkpoint's directory
  std::uint64_t bytes = 0;
  std::uint64_t tensors = 0, weight_bytes = 0;  // expert weights in it
  std::vector<RepackTask> tasks;                // by offset
};

struct NamedSize {
  std::string name;
  std::uint64_t bytes = 0;
};

// The files with expert weights, sorted by name, and those that are copied whole. Copies and rows are cut
// into tasks of at most `block` bytes or one row; groups are not. Error: not an MXFP4 model; only there the
// weights are e2m1 as they stand.
std::vector<RepackFile> plan_repack(const Checkpoint& checkpoint, const Model& model, Granularity granularity,
                                    std::uint64_t block, const std::vector<NamedSize>& copied);

}  // namespace planesmith
