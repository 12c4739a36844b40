// Where converted experts go. A Sink is one artifact of one rank: a planes-cache directory or a pack. It is
// filled layer by layer. A layer appears under its final name (or in the sidecar) only when all of it is
// durable.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/model.h"
#include "format/geometry.h"
#include "plan/plan.h"

namespace planesmith {

// One layer of a sink while it is being written; holds the layer's lock. If it is destroyed without commit(),
// it leaves nothing under a final name.
class LayerOutput {
 public:
  virtual ~LayerOutput() = default;
  // Writes bytes of one expert's section, `offset` bytes from its start; a later write replaces an earlier
  // one. Different experts may be written from different threads.
  virtual void write(std::uint64_t expert, format::Section section, std::uint64_t offset,
                     ConstBytes bytes) = 0;
  // Call when the whole section is written; digest: of the section.
  virtual void finish(std::uint64_t expert, format::Section section, const Xxh3& digest) = 0;
  // Makes the layer durable and visible and leaves its record.
  virtual void commit() = 0;
};

// Which evidence makes a layer count as finished: its record and the files' stamps, its content (--recheck),
// or nothing (--force).
enum class Trust { record, content, nothing };

class Sink {
 public:
  virtual ~Sink() = default;
  virtual std::string describe() const = 0;  // for messages: the path
  virtual std::uint64_t rank() const = 0;
  // File descriptors in use while one layer is being written.
  virtual std::size_t open_files() const = 0;
  // Error (usage, "other-source"): the artifact was made from another checkpoint. Changes nothing.
  virtual void refuse_other_source() = 0;
  // Creates the directory (and an empty pack). Errors: something else is in its place; it was made from
  // another checkpoint.
  virtual void prepare() = 0;
  // Sections still to be made for a layer; none set: the layer is finished. A layer whose files have no
  // record is made, too: existing files are compared with it and kept if they are the same.
  virtual SectionSet missing(const SparseLayer& layer) = 0;
  // Bytes of free space that writing these layers needs, `at_once` of them side by side: a layer that is
  // replaced frees its space only when its successor is complete.
  virtual std::uint64_t space_needed(const std::vector<const SparseLayer*>& layers, std::size_t at_once) = 0;
  // Starts a layer, or starts it over; `sections`: from missing(). Null: another run is writing it, or has
  // finished it since.
  virtual std::unique_ptr<LayerOutput> open_layer(const SparseLayer& layer, const SectionSet& sections) = 0;
  // How many of these layers are finished, how many have all files but no record, so that they will be
  // compared, and a message about that.
  struct Standing {
    std::uint64_t finished = 0, compared = 0;
    std::string remark;
  };
  virtual Standing standing(const std::vector<const SparseLayer*>& layers) = 0;
  // Merges the records into the manifest once every layer of the model is there. False: layers are missing.
  // May be repeated.
  virtual bool seal() = 0;
};

}  // namespace planesmith
