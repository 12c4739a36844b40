// Where converted experts go. A Sink is one artifact of one rank: a planes-cache directory or a pack. It is
// filled layer by layer; a layer shows up under its final name (or in the sidecar) only when all of it is
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

// One layer of a sink while it is being written. Holds the layer's lock. Destroyed without commit() it leaves
// nothing under a final name.
class LayerOutput {
 public:
  virtual ~LayerOutput() = default;
  // Writes bytes of one expert's section, `offset` from its start; a later write replaces an earlier one.
  // Different experts may be written from different threads.
  virtual void write(std::uint64_t expert, format::Section section, std::uint64_t offset,
                     ConstBytes bytes) = 0;
  // The whole section is written and has this digest.
  virtual void finish(std::uint64_t expert, format::Section section, const Xxh3& digest) = 0;
  // Makes the layer durable and visible and leaves its record.
  virtual void commit() = 0;
};

// What a finished layer is believed by: its record and the files' sizes, the content itself, or nothing
// (--force).
enum class Trust { record, content, nothing };

class Sink {
 public:
  virtual ~Sink() = default;
  virtual std::string describe() const = 0;  // for messages: the path
  virtual std::uint64_t rank() const = 0;
  // Files that are open while one of its layers is being written.
  virtual std::size_t open_files() const = 0;
  // Error (usage, "other-source"): what is there was made from another checkpoint. Changes nothing.
  virtual void refuse_other_source() = 0;
  // Makes the directory (and an empty pack) ready. Errors: something else is in its place, or it was made
  // from another checkpoint.
  virtual void prepare() = 0;
  // Sections still to be made for a layer; none: the layer is finished. A layer whose files are there without
  // a record is made, too: what is there is compared with it and kept as far as it is the same.
  virtual SectionSet missing(const SparseLayer& layer) = 0;
  // Bytes of disk that writing these layers will take beyond what is there already.
  virtual std::uint64_t space_needed(const std::vector<const SparseLayer*>& layers) = 0;
  // Starts (over) a layer; `sections` as missing() said. Null where another run is writing it, or wrote it
  // since.
  virtual std::unique_ptr<LayerOutput> open_layer(const SparseLayer& layer, const SectionSet& sections) = 0;
  // What stands there: how many of these layers are finished, how many have all their files and no record, so
  // that they are compared, and what is to be said of it.
  struct Standing {
    std::uint64_t finished = 0, compared = 0;
    std::string remark;
  };
  virtual Standing standing(const std::vector<const SparseLayer*>& layers) = 0;
  // Once every layer of the model is there: merges the records into the manifest and removes them. False
  // where layers are still missing. Harmless to repeat.
  virtual bool seal() = 0;
};

}  // namespace planesmith
