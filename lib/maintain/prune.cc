#include "maintain/prune.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "maintain/retire.h"
#include "store/store.h"

namespace planesmith {

PruneReport prune(const Context& context, const PruneRequest& request) {
  Os& os = context.os;
  const Store store = scan_store(os, request.planescache, request.store);
  const std::set<std::string> keep(request.keep.begin(), request.keep.end());
  std::set<std::string> there;
  std::vector<const FoundCache*> caches;
  std::vector<const FoundPack*> packs;
  PruneReport report;
  const auto take = [&](const std::string& ckpt_id, const std::string& path, std::uint64_t bytes) {
    there.insert(ckpt_id);
    (keep.contains(ckpt_id) ? report.kept : report.removed).push_back({ckpt_id, path, bytes});
    return !keep.contains(ckpt_id);
  };
  for (const FoundCache& cache : store.caches)
    if (cache.meta && take(cache.meta->ckpt_id, cache.path, cache.bytes)) caches.push_back(&cache);
  for (const FoundPack& pack : store.packs)
    if (pack.sidecar && take(pack.sidecar->spec.ckpt_id, format::pack_file(pack.stem), pack.allocated))
      packs.push_back(&pack);
  for (const std::string& ckpt_id : keep)
    if (!there.contains(ckpt_id))
      throw Error(ErrorCode::usage, "",
                  fmt::format("'{}' is to be kept, but is not there; found: {}; nothing was removed", ckpt_id,
                              there.empty() ? "none" : fmt::format("'{}'", fmt::join(there, "', '"))));
  if (!request.force) return report;

  const std::optional<Dir> root =
      caches.empty() ? std::nullopt : std::optional(Dir::open(context.os, request.planescache));
  const std::optional<Dir> directory =
      request.store.empty() ? std::nullopt : Dir::find(context.os, request.store);
  StoreLocks locks;
  for (const FoundCache* cache : caches) take_cache_locks(context, *root, cache->name, locks);
  for (const FoundPack* pack : packs) take_pack_locks(context, *directory, name_of(pack->stem), locks);
  for (const FoundCache* cache : caches) {
    context.check_stop();
    remove_cache(*root, cache->name);
  }
  for (const FoundPack* pack : packs) {
    context.check_stop();
    remove_pack(*directory, name_of(pack->stem));
  }
  if (directory) remove_stray_locks(context, *directory);
  locks = {};
  for (const FoundCache* cache : caches) remove_emptied(*root, cache->name);
  for (const PoolHeat& heat : store.pool_heat) {
    const auto is_of = [&](const FoundPack& pack) {
      return pack.sidecar && tag(pack.sidecar->spec.tier) == heat.tag && pack.rank == heat.rank &&
             pack.world == heat.world;
    };
    // A pool's heat has no identity: remove it with the last pack that could use it.
    const bool lost =
        std::any_of(packs.begin(), packs.end(), [&](const FoundPack* pack) { return is_of(*pack); });
    const bool kept = std::any_of(store.packs.begin(), store.packs.end(), [&](const FoundPack& pack) {
      return is_of(pack) && keep.contains(pack.sidecar->spec.ckpt_id);
    });
    if (lost && !kept) Dir::open(context.os, parent_of(heat.path)).unlink(name_of(heat.path));
  }
  return report;
}

}  // namespace planesmith
