// Derives what the engine would look for from the command line and the store.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "store/probe.h"

namespace planesmith {
namespace {

std::optional<bool> split_of(const BootRequest& request) {
  if (request.split || !request.fp4) return request.split;
  return *request.fp4 == format::Fp4Tier::quintal;
}

bool agrees(const FoundIdentity& identity, const BootRequest& request) {
  if (request.ckpt_id && *request.ckpt_id != identity.ckpt_id) return false;
  if (request.world && *request.world != identity.world) return false;
  if (request.zero_mode && *request.zero_mode != identity.zero_mode) return false;
  const std::optional<bool> split = split_of(request);
  return !split || !identity.split || *identity.split == *split;
}

// The value that all identities share, else the fallback.
template <typename Value, typename Of>
Value shared(const std::vector<const FoundIdentity*>& identities, Value fallback, Of of) {
  std::set<Value> values;
  for (const FoundIdentity* identity : identities) values.insert(of(*identity));
  return values.size() == 1 ? *values.begin() : fallback;
}

std::string listing(const std::vector<const FoundIdentity*>& identities) {
  std::vector<std::string> all;
  all.reserve(identities.size());
  for (const FoundIdentity* identity : identities) all.push_back(describe(*identity));
  return fmt::format("{}", fmt::join(all, ", "));
}

// From the caches of these identities; else from a directory that has this identity's name but no meta.json;
// else the builders' default.
format::Fp4Tier fp4_of(const std::vector<const FoundIdentity*>& identities, const Store& store,
                       const Boot& boot) {
  std::optional<format::Fp4Tier> most;
  for (const FoundIdentity* identity : identities)
    for (const FoundCache* cache : identity->caches)
      most = std::max(most.value_or(cache->fp4()), cache->fp4());
  if (most) return *most;
  for (const FoundCache& cache : store.caches)
    for (std::uint64_t rank = 0; rank < boot.world; ++rank)
      if (cache.name == format::cache_directory({boot.ckpt_id, boot.world, rank, boot.zero_mode, true}))
        return format::Fp4Tier::quintal;
  return format::Fp4Tier::nibble;
}

}  // namespace

void fill_in(BootRequest& request, format::Mode mode, bool has_store) {
  request.mode = mode;
  if (!request.fp4) request.fp4 = format::cache_fp4(mode);
  if (!request.tiers) request.tiers = has_store ? format::packs(mode) : std::vector<format::Tier>{};
}

Boot complete(const BootRequest& request, const Store& store) {
  const std::vector<FoundIdentity> all = identities(store);
  std::vector<const FoundIdentity*> matching, of_that_id;
  for (const FoundIdentity& identity : all) {
    if (agrees(identity, request)) matching.push_back(&identity);
    if (!request.ckpt_id || *request.ckpt_id == identity.ckpt_id) of_that_id.push_back(&identity);
  }
  if (matching.size() > 1)
    throw Error(
        ErrorCode::usage, "",
        fmt::format(
            "several identities are there: {}; choose one with --ckpt-id, --world, --zero-mode or --fp4",
            listing(matching)));
  // If no identity agrees with the whole request, take the rest from those with the right ckpt_id.
  const std::vector<const FoundIdentity*>& from = matching.empty() ? of_that_id : matching;

  Boot boot;
  if (request.ckpt_id) {
    boot.ckpt_id = *request.ckpt_id;
  } else {
    const std::string where = store.root.empty() ? store.directory : store.root;
    if (from.empty())
      throw Error(ErrorCode::difference, where,
                  where.empty() ? "the configuration names neither a planes cache nor a store, so the engine "
                                  "would convert the checkpoint's experts itself"
                                : "holds no planes cache and no pack of any identity");
    boot.ckpt_id = from.front()->ckpt_id;
    if (std::any_of(from.begin(), from.end(),
                    [&](const FoundIdentity* one) { return one->ckpt_id != boot.ckpt_id; }))
      throw Error(ErrorCode::usage, "",
                  fmt::format("several identities are there: {}; choose one with --ckpt-id", listing(from)));
  }
  boot.world = request.world.value_or(
      shared(from, std::uint64_t{1}, [](const FoundIdentity& one) { return one.world; }));
  boot.zero_mode = request.zero_mode.value_or(
      shared(from, format::ZeroMode::automatic, [](const FoundIdentity& one) { return one.zero_mode; }));
  boot.fp4 = request.fp4.value_or(fp4_of(from, store, boot));
  boot.split = split_of(request).value_or(boot.fp4 == format::Fp4Tier::quintal);
  boot.tiers = request.tiers;
  boot.mode = request.mode;
  boot.drafts = request.drafts;
  if (request.rank && *request.rank >= boot.world)
    throw Error(ErrorCode::usage, "",
                fmt::format("rank {} is outside the world of {}", *request.rank, boot.world));
  if (request.rank) {
    boot.ranks = {*request.rank};
  } else {
    boot.ranks.resize(boot.world);
    std::iota(boot.ranks.begin(), boot.ranks.end(), 0);
  }
  return boot;
}

std::uint64_t drafts_there(const Store& store, const Boot& boot, const KnownModel& model) {
  std::optional<std::uint64_t> fewest;
  const auto take = [&](std::uint64_t drafts) { fewest = std::min(fewest.value_or(drafts), drafts); };
  for (const FoundPack& pack : store.packs)
    if (pack.sidecar && pack.sidecar->spec.ckpt_id == boot.ckpt_id && pack.world == boot.world)
      if (const auto drafts = drafts_of(pack, model)) take(*drafts);
  if (fewest) return *fewest;
  for (const FoundCache& cache : store.caches)
    if (cache.meta && cache.meta->ckpt_id == boot.ckpt_id && cache.meta->world == boot.world)
      take(drafts_of(cache, model));
  return fewest.value_or(model.geometry.drafts);
}

std::vector<format::Tier> tiers_there(const Store& store, const Boot& boot,
                                      const std::optional<KnownModel>& model) {
  std::set<format::Tier> there, of_that_id;  // of_that_id: also of another world or zero mode
  const auto take = [&](format::Tier tier, const std::string& ckpt_id, std::uint64_t world,
                        format::ZeroMode mode) {
    if (ckpt_id != boot.ckpt_id) return;
    of_that_id.insert(tier);
    if (world == boot.world && mode == boot.zero_mode) there.insert(tier);
  };
  for (const FoundPack& pack : store.packs) {
    if (pack.sidecar)
      take(model ? settled_tier(pack.sidecar->spec, format::rank_shape(model->geometry, pack.world))
                 : pack.sidecar->spec.tier,
           pack.sidecar->spec.ckpt_id, pack.world, pack.sidecar->spec.zero_mode);
    else if (pack.facts)
      take(*pack.facts->tier, pack.facts->ckpt_id, pack.world, pack.facts->zero_mode);
    else if (model)
      for (const format::Tier tier : format::kTiers) {
        const format::RankShape shape = format::rank_shape(model->geometry, boot.world);
        const format::PackSpec spec =
            format::pack_spec(tier, model->geometry, shape, boot.ckpt_id, boot.zero_mode);
        if (pack.world == boot.world && format::pack_stem(spec, pack.rank, pack.world) == name_of(pack.stem))
          there.insert(tier);
      }
  }
  if (there.empty()) there = of_that_id;
  if (!there.empty()) return {there.begin(), there.end()};
  if (boot.mode) return format::packs(*boot.mode);
  if (boot.split) return {format::Tier::base, format::Tier::fp4q};
  return {format::Tier::base, format::Tier::delta, format::Tier::fp4};
}

}  // namespace planesmith
