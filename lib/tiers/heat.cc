#include "tiers/heat.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "store/store.h"

namespace planesmith {
namespace {

using nlohmann::ordered_json;

ordered_json pairs_json(const std::vector<HeatPlace>& hottest_first) {
  ordered_json list = ordered_json::array();
  for (const HeatPlace& place : hottest_first) list.push_back({place.layer, place.expert});
  return list;
}

void check_geometry(const FoundPack& pack, const std::vector<HeatPlace>& hottest_first) {
  const format::PackSpec& spec = pack.sidecar->spec;
  for (const HeatPlace& place : hottest_first)
    if (place.layer >= spec.n_layers || place.expert >= spec.experts)
      throw Error(
          ErrorCode::difference, format::pack_file(pack.stem),
          fmt::format("has rows for {} layers of {} experts, but the trace uses expert {} of layer {}: it is "
                      "of another model",
                      spec.n_layers, spec.experts, place.expert, place.layer));
}

}  // namespace

std::vector<std::string> write_heat(const Context& context, const std::string& store,
                                    const std::vector<HeatPlace>& hottest_first) {
  const Store found = scan_store(context.os, "", store);
  std::vector<const FoundPack*> packs;
  for (const FoundPack& pack : found.packs)
    if (pack.sidecar) packs.push_back(&pack);
  if (packs.empty()) throw Error(store, "holds no pack that heat could be written for");
  for (const FoundPack* pack : packs) check_geometry(*pack, hottest_first);

  const ordered_json pairs = pairs_json(hottest_first);
  std::vector<std::string> written;
  const auto write = [&](const std::string& path, const ordered_json& document) {
    if (std::find(written.begin(), written.end(), path) != written.end()) {
      context.progress.say(
          fmt::format("{}: packs of several identities share this name; it is written for the first", path));
      return;
    }
    write_atomically(context.os, path, spaced(document));
    written.push_back(path);
  };
  for (const FoundPack* pack : packs) {
    const format::PackSpec& spec = pack->sidecar->spec;
    const std::string_view tag = format::tag(spec.tier);
    write(format::heat_file(pack->stem), {{"version", 1}, {"keys", pairs}});
    write(join(store, format::pool_heat_file(tag, pack->rank, pack->world)),
          {{"meta",
            {{"version", "pool-heat-v1"},
             {"tag", tag},
             {"n_layers", spec.n_layers},
             {"E", spec.experts},
             {"slot_bytes", spec.slot_bytes}}},
           {"owners", pairs}});
  }
  return written;
}

}  // namespace planesmith
