// The contents of a store, as text and JSON.
#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "verify/report.h"

namespace planesmith {
namespace {

// " - reason", appended to what has a defect.
std::string behind(const std::string& defect) {
  return defect.empty() ? "" : fmt::format(" - {}", printable(defect));
}

Json with_defect(Json object, const std::string& defect) {
  object["complete"] = defect.empty();
  if (!defect.empty()) object["reason"] = printable(defect);
  return object;
}

}  // namespace

std::string to_text(const Store& store) {
  std::string text;
  for (const FoundIdentity& identity : identities(store)) {
    text += fmt::format("{}: {}{}\n", printable(describe(identity)),
                        !is_whole(identity) ? "INCOMPLETE"
                        : is_judged(identity)
                            ? "complete"
                            : "complete, as far as can be told without a manifest, --config or --profile",
                        behind(defect(identity)));
    for (const FoundCache* cache : identity.caches)
      text += fmt::format("  {}: rank {}, {} layers, FP4 {}, {}{}\n", cache->name, cache->meta->rank,
                          cache->layers.size(), format::name(cache->fp4()), exact_size(cache->bytes),
                          behind(defect(*cache)));
    for (const FoundPack* pack : identity.packs)
      text += fmt::format("  {}.pack: rank {}, {} layers, {}, {} on disk{}{}\n",
                          printable(name_of(pack->stem)), pack->rank, pack->sidecar->layer_keys.size(),
                          exact_size(pack->bytes.value_or(0)), short_size(pack->allocated),
                          pack->heat == 0 ? "" : ", with its heat file", behind(defect(*pack)));
  }
  for (const FoundCache& cache : store.caches)
    if (!cache.meta)
      text += fmt::format("of no identity: {}{}\n", printable(cache.path), behind(cache.problem));
  for (const FoundPack& pack : store.packs)
    if (!pack.sidecar)
      text += fmt::format("of no identity: {}{}\n", printable(pack.stem), behind(pack.problem));
  for (const PoolHeat& heat : store.pool_heat)
    text += fmt::format("heat of the {} pool, rank {} of {}: {}\n", heat.tag, heat.rank, heat.world,
                        printable(heat.path));
  if (text.empty()) text = "no planes cache and no pack of any identity\n";
  return text;
}

Json to_json(const Store& store) {
  Json out = {{"identities", Json::array()}, {"of_no_identity", Json::array()}};
  for (const FoundIdentity& identity : identities(store)) {
    Json one = {{"ckpt_id", identity.ckpt_id},
                {"world", identity.world},
                {"zero_mode", format::name(identity.zero_mode)},
                {"planescache", Json::array()},
                {"packs", Json::array()}};
    std::uint64_t bytes = 0;
    for (const FoundCache* cache : identity.caches) {
      one["planescache"].push_back(with_defect({{"directory", printable(cache->path)},
                                                {"rank", cache->meta->rank},
                                                {"fp4", format::name(cache->fp4())},
                                                {"layers", cache->layers.size()},
                                                {"bytes", cache->bytes}},
                                               defect(*cache)));
      bytes += cache->bytes;
    }
    for (const FoundPack* pack : identity.packs) {
      one["packs"].push_back(with_defect({{"pack", printable(format::pack_file(pack->stem))},
                                          {"tier", format::name(pack->sidecar->spec.tier)},
                                          {"rank", pack->rank},
                                          {"layers", pack->sidecar->layer_keys.size()},
                                          {"bytes", pack->bytes.value_or(0)},
                                          {"allocated", pack->allocated}},
                                         defect(*pack)));
      if (pack->heat != 0) one["packs"].back()["heat"] = printable(pack->heat_path());
      bytes += pack->bytes.value_or(0);
    }
    one = with_defect(std::move(one), defect(identity));
    one["complete"] = is_whole(identity);
    one["geometry_known"] = is_judged(identity);
    one["bytes"] = bytes;
    out["identities"].push_back(std::move(one));
  }
  for (const PoolHeat& heat : store.pool_heat)
    out["pool_heat"].push_back(
        {{"path", printable(heat.path)}, {"tag", heat.tag}, {"rank", heat.rank}, {"world", heat.world}});
  const auto stray = [&](const std::string& path, const std::string& problem) {
    out["of_no_identity"].push_back({{"path", printable(path)}, {"reason", printable(problem)}});
  };
  for (const FoundCache& cache : store.caches)
    if (!cache.meta) stray(cache.path, cache.problem);
  for (const FoundPack& pack : store.packs)
    if (!pack.sidecar) stray(pack.stem, pack.problem);
  return out;
}

}  // namespace planesmith
