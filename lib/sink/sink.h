// Where converted experts go. A Sink is one artifact of one rank: a planes-cache folder or a pack. It is filled layer
// by layer; a layer shows up under its final name (or in the sidecar) only when all of it is durable.
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

// One expert's sections on one rank; a section that was not made is empty.
struct ExpertSections {
  std::array<ConstBytes, format::kSections> bytes;
  std::array<Xxh3, format::kSections> digest;
};

// One layer of a sink while it is being written. Holds the layer's lock. Destroyed without commit() it leaves nothing
// under a final name.
class LayerOutput {
 public:
  virtual ~LayerOutput() = default;
  // Writes one expert's sections; may be called from several threads, for each expert once.
  virtual void write(std::uint64_t expert, const ExpertSections& sections) = 0;
  // Makes the layer durable and visible and leaves its record.
  virtual void commit() = 0;
};

// What a finished layer is believed by: its record and the files' sizes, the content itself, or nothing (--force).
enum class Trust { record, content, nothing };

class Sink {
 public:
  virtual ~Sink() = default;
  virtual std::string describe() const = 0;   // for messages: the path
  virtual std::uint64_t rank() const = 0;
  // Makes the folder (and an empty pack) ready. Errors: something else is in its place.
  virtual void prepare() = 0;
  // Sections still to be made for a layer; none: the layer is finished.
  virtual SectionSet missing(const SparseLayer& layer) = 0;
  // Bytes of disk that writing these layers will take beyond what is there already.
  virtual std::uint64_t space_needed(const std::vector<const SparseLayer*>& layers) = 0;
  // Starts (over) a layer; `sections` as missing() said. Null where another run is writing it, or wrote it since.
  virtual std::unique_ptr<LayerOutput> open_layer(const SparseLayer& layer, const SectionSet& sections) = 0;
  // Once every layer of the model is there: merges the records into the manifest and removes them. False where layers
  // are still missing. Harmless to repeat.
  virtual bool seal() = 0;
};

}  // namespace planesmith
