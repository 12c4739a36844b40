// Routing captures of the engine (VLLM_MOE_W2_DELTA_CAPTURE): NumPy arrays of rows [tick, layer, expert], one
// row for each expert used in a tick of the engine's pool manager. docs/TIERS.md says how to take one.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"

namespace planesmith {

// One .npy file: int32 or int64, little-endian, shape (rows, 3), C or Fortran order.
class TraceFile {
 public:
  struct Row {
    std::int64_t tick, layer, expert;
  };
  // Errors: not such an array; a file shorter or longer than its header says.
  TraceFile(Os& os, const std::string& path);

  const std::string& path() const { return file_.path(); }
  std::uint64_t rows() const { return rows_; }
  std::uint64_t offset_of(std::uint64_t row) const;  // in the file, of the row's tick; for messages
  // Reads rows [first, first + out.size()); `buffer` is scratch.
  void read(std::uint64_t first, std::span<Row> out, std::vector<std::uint8_t>& buffer) const;

 private:
  File file_;
  std::uint64_t rows_ = 0, data_at_ = 0, item_ = 4;
  bool fortran_ = false;
};

// A pair of layer and expert, as the number layer * experts() + expert.
using Pair = std::uint32_t;
// One tick's pairs, ascending, each once.
using TakeTick = std::function<void(std::uint64_t tick, std::span<const Pair> pairs)>;

// All captures of a run, one session each, in the order given.
class Trace {
 public:
  // Reads all files once to find the range and order of ticks. `least_layers` and `least_experts` extend the
  // numbering of pairs to a known model. Errors: a number that is negative or too large for any model.
  Trace(const Context& context, const std::vector<std::string>& paths, std::uint64_t least_layers,
        std::uint64_t least_experts);

  std::size_t sessions() const { return sessions_.size(); }
  std::uint64_t rows() const;
  std::uint64_t layers() const { return layers_; }    // largest layer + 1
  std::uint64_t experts() const { return experts_; }  // largest expert + 1
  std::uint64_t numbers() const { return layers_ * experts_; }

  // Passes a session's ticks to `take` in ascending order. Rows out of order are sorted in memory; if they do
  // not fit, the file is read once for each part that does. Error (usage): the rows of neighbouring ticks do
  // not fit in context.memory.
  void for_each_tick(const Context& context, std::size_t session, const TakeTick& take) const;

 private:
  struct Session {
    TraceFile file;
    std::uint64_t first_tick = 0, last_tick = 0;
    bool ordered = true;  // ticks never descend
  };
  void in_file_order(const Context& context, const Session& session, const TakeTick& take) const;
  void sorted(const Context& context, const Session& session, const TakeTick& take) const;
  std::vector<Session> sessions_;
  std::uint64_t layers_ = 0, experts_ = 0;
};

}  // namespace planesmith
