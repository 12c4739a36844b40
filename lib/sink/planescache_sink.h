// The planes cache of one rank (FORMAT.md section 6): <root>/v2/<key>/tp<W>-rank<r>/.
#pragma once

#include <memory>
#include <string>

#include "format/planescache.h"
#include "sink/record_cache.h"
#include "sink/sink.h"

namespace planesmith {

struct PlanesCacheSpec {
  std::string root;
  format::CacheMeta meta;
  format::Fp4Tier fp4 = format::Fp4Tier::nibble;
  format::Geometry geometry;
  std::vector<std::uint64_t> all_layers;  // indices of the model's sparse layers, sorted
  bool id_by_download = false;            // CacheFacts
  std::string source{};                   // fingerprint of the checkpoint; empty: not known
  std::optional<Family> family{};         // of the checkpoint's experts; none: not known
  std::shared_ptr<RecordCache> records = std::make_shared<RecordCache>();
};

std::unique_ptr<Sink> make_planescache_sink(const Context& context, PlanesCacheSpec spec, Trust trust);

}  // namespace planesmith
