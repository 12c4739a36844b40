// The tasks of repacking a checkpoint. Every byte of a file to be written belongs to exactly one task.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/model.h"
#include "codebook/fit.h"

namespace planesmith {

struct RepackRange {
  std::uint32_t file = 0;  // index into what plan_repack() returns
  std::uint64_t offset = 0, size = 0;
};

// What one worker does at a time. Bytes are written at the offset they were read from.
struct RepackTask {
  enum class Kind {
    copy,   // bytes other than expert weights, unchanged
    group,  // those tensors in this file that share a codebook
    rows,   // whole rows, or whole blocks of 32
  };
  Kind kind = Kind::copy;
  std::vector<RepackRange> ranges;     // all in one file
  std::vector<RepackRange> elsewhere;  // group: tensors in other files that share the codebook
  std::uint64_t row_bytes = 0;         // kind rows: bytes of a row, or of a block of 32

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

// The files with expert weights, sorted by name, then those that are copied whole. Copies and rows are cut
// into tasks of at most `block` bytes or one row; groups are not cut. Error: not an MXFP4 model; only MXFP4
// weights are used unrequantized.
std::vector<RepackFile> plan_repack(const Checkpoint& checkpoint, const Model& model, Granularity granularity,
                                    std::uint64_t block, const std::vector<NamedSize>& copied);

}  // namespace planesmith
