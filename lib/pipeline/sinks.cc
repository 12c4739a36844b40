#include "pipeline/sinks.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "base/file_status.h"
#include "base/paths.h"
#include "sink/pack_sink.h"
#include "sink/planescache_sink.h"

namespace planesmith {

std::vector<std::unique_ptr<Sink>> make_sinks(const Context& context, const Plan& plan,
                                              const BuildTarget& target) {
  std::vector<std::unique_ptr<Sink>> sinks;
  std::vector<std::uint64_t> keys;
  for (std::uint64_t key = 0; key < plan.all_layers.size(); ++key) keys.push_back(key);
  for (const std::uint64_t rank : plan.ranks) {
    if (plan.request.cache) {
      const format::CacheMeta meta{target.ckpt_id, plan.shape.world, rank, plan.request.zero_mode,
                                   *plan.request.cache == format::Fp4Tier::quintal};
      sinks.push_back(
          make_planescache_sink(context,
                                {target.cache_root, meta, *plan.request.cache, plan.geometry, plan.all_layers,
                                 target.id_by_download, target.source, plan.family, target.records},
                                target.trust));
    }
    for (const format::Tier tier : plan.request.tiers)
      sinks.push_back(std::make_unique<PackSink>(
          context,
          PackSinkSpec{
              target.store.of(rank),
              format::pack_spec(tier, plan.geometry, plan.shape, target.ckpt_id, plan.request.zero_mode),
              rank, plan.shape.world, plan.geometry, keys, target.id_by_download, target.source, plan.family,
              true, target.records},
          target.trust));
  }
  return sinks;
}

std::string writable_base(const Context& context, const std::string& path) {
  std::string base = nearest_existing(context.os, path);
  if (!S_ISDIR(status(context.os, base).st_mode))
    throw Error(base, "is not a directory; choose another name");
  if (!accessible(context.os, base, W_OK | X_OK))
    throw Error(base, fmt::format("is not writable: {}; choose another directory", std::strerror(errno)));
  return base;
}

}  // namespace planesmith
