#include "store/serving.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "serve/judge.h"

namespace planesmith {

std::string absolute_path(const std::string& path) {
  std::error_code error;
  std::string absolute = std::filesystem::absolute(path, error).string();
  if (error) throw Error(path, "cannot be made absolute: " + error.message());
  while (absolute.size() > 1 && absolute.ends_with('/')) absolute.pop_back();
  return absolute;
}

Environment environment_of(const BootVerdict& verdict, const Store& store, const Environment& given,
                           std::optional<std::uint64_t> gpu_bytes) {
  const Boot& boot = verdict.boot;
  Serving serving;
  serving.mode = boot.mode.value();
  serving.ckpt_id = boot.ckpt_id;
  serving.zero_mode = boot.zero_mode;
  const bool read = std::any_of(verdict.caches.begin(), verdict.caches.end(),
                                [](const CacheVerdict& cache) { return cache.unread.empty(); });
  if (read) serving.planes_cache = absolute_path(store.root);
  const std::vector<format::Tier> packs = format::packs(serving.mode);
  if (!store.directory.empty() && std::all_of(packs.begin(), packs.end(), [&](format::Tier tier) {
        return std::find(boot.tiers->begin(), boot.tiers->end(), tier) != boot.tiers->end();
      }))
    serving.store = absolute_path(store.places.of(boot.ranks.front()));
  if (verdict.model) {
    serving.geometry = verdict.model->geometry;
    const format::ModeSwitches mode = format::switches(serving.mode);
    serving.ks =
        format::needed_ks(format::rank_shape(verdict.model->geometry, boot.world), mode.fp4 && mode.split);
  }
  const auto value = [&](const char* name) {
    const auto found = given.find(name);
    return found == given.end() ? "" : found->second;
  };
  serving.base_cache_gb = value("VLLM_MOE_W2_BASE_CACHE_GB");
  serving.delta_gb = value("VLLM_MOE_W2_DELTA_GB");
  const Pools usual =
      usual_pools(serving.mode, verdict.model ? &*verdict.model : nullptr, boot.world, gpu_bytes);
  if (serving.base_cache_gb.empty() && usual.base_cache != 0)
    serving.base_cache_gb = fmt::format("{:g}", usual.base_cache);
  if (serving.delta_gb.empty() && usual.delta != 0) serving.delta_gb = fmt::format("{:g}", usual.delta);
  return environment_of(serving);
}

}  // namespace planesmith
