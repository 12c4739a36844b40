#include "pipeline/cache_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "checkpoint/fingerprint.h"
#include "store/planted.h"
#include "store/store.h"

namespace planesmith {
namespace {

using format::Section;
using format::Tier;

// What the store has instead, for messages.
std::string what_is_there(const Store& store) {
  std::vector<std::string> there;
  for (const FoundIdentity& identity : identities(store)) there.push_back(describe(identity));
  for (const FoundCache& cache : store.caches)
    if (!cache.meta) there.push_back(fmt::format("{}, of no identity ({})", cache.name, cache.problem));
  return there.empty() ? "it holds no planes cache" : fmt::format("there are: {}", fmt::join(there, ", "));
}

// The directories that match the request, by rank, nibble caches before quintal ones.
std::map<std::uint64_t, std::vector<const FoundCache*>> directories_by_rank(const Store& store,
                                                                            const FromCacheRequest& request) {
  std::map<std::uint64_t, std::vector<const FoundCache*>> found;
  std::set<std::string> ids;
  for (const bool split : {false, true})
    for (const FoundCache& cache : store.caches) {
      if (!cache.meta || cache.meta->split != split) continue;
      const format::CacheMeta& meta = *cache.meta;
      if (meta.world != request.world || meta.zero_mode != request.zero_mode) continue;
      if (request.ckpt_id && meta.ckpt_id != *request.ckpt_id) continue;
      if (request.rank && meta.rank != *request.rank) continue;
      ids.insert(meta.ckpt_id);
      found[meta.rank].push_back(&cache);
    }
  if (ids.size() > 1)
    throw Error(ErrorCode::usage, request.cache_root,
                fmt::format("holds several identities; choose one with --ckpt-id: {}", fmt::join(ids, ", ")));
  const std::uint64_t wanted = request.rank ? 1 : request.world;
  if (found.empty())
    throw Error(request.cache_root,
                fmt::format("no planes cache for world {}, zero mode {}{} is here; {}", request.world,
                            name(request.zero_mode), request.ckpt_id ? " and this identity" : "",
                            what_is_there(store)));
  if (found.size() != wanted)
    throw Error(request.cache_root, fmt::format("has {} of {} ranks of world {}; {}", found.size(), wanted,
                                                request.world, what_is_there(store)));
  return found;
}

// The facts come from the cache's manifest, else from its meta.json, its files and the known model.
CacheSource open_source(const Context& context, const FoundCache& cache,
                        const std::optional<KnownModel>& model, std::uint64_t drafts) {
  CacheSource source;
  source.directory = cache.path;
  if (!cache.note.empty())
    throw Error(cache.manifest_path(), cache.note + "; move it away to continue without a manifest");
  if (cache.facts) {
    source.manifest = read_manifest(context.os, cache.manifest_path());
    source.facts = *source.manifest->facts;
    source.geometry_from = "manifest " + cache.manifest_path();
  } else if (model) {
    source.facts = {.ckpt_id = cache.meta->ckpt_id,
                    .world = cache.meta->world,
                    .rank = cache.meta->rank,
                    .zero_mode = cache.meta->zero_mode,
                    .geometry = model->geometry,
                    .layers = model->layers,
                    .fp4 = cache.fp4()};
    source.geometry_from = model->source;
  } else {
    throw Error(ErrorCode::usage, cache.path,
                "has no manifest that says the model's geometry; give --config or --profile, or build the "
                "packs from the checkpoint");
  }
  const KnownModel taken = with_drafts({source.facts.geometry, source.facts.layers, ""}, drafts);
  source.facts.geometry = taken.geometry;
  source.facts.layers = taken.layers;
  source.shape = format::rank_shape(source.facts.geometry, source.facts.world);
  return source;
}

// The origins of a pack's sections; empty: the cache lacks the FP4 planes for them.
std::vector<Origin> origins(format::Fp4Tier fp4, Tier tier) {
  const bool quintal = fp4 == format::Fp4Tier::quintal;
  std::vector<Origin> out;
  for (const Section section : format::slot_sections(tier)) {
    Origin origin{section, name(section), section};
    if (section == Section::fpq13) origin = {section, "fp13", quintal ? section : Section::fp13};
    if (section == Section::fpq2) origin = {section, "fp2", quintal ? section : Section::fp2};
    const bool nibbles = origin.stored == Section::fp13 || origin.stored == Section::fp2;
    if (nibbles && fp4 != format::Fp4Tier::nibble) return {};
    out.push_back(origin);
  }
  return out;
}

// The requested layers must be there, and layers that are there must belong to the model.
void check_layers(const CacheSource& source, const FoundCache& cache, const FromCacheRequest& request) {
  const std::vector<std::uint64_t>& layers = source.facts.layers;
  for (const auto& [layer, files] : cache.layers)
    if (layer < source.facts.geometry.layers && !std::binary_search(layers.begin(), layers.end(), layer))
      throw Error(join(cache.path, format::part_file(layer, files.begin()->first)),
                  fmt::format("is of a layer that is not sparse according to {}", source.geometry_from));
  for (const std::uint64_t layer : request.layers.value_or(layers))
    if (!std::binary_search(layers.begin(), layers.end(), layer))
      throw Error(ErrorCode::usage, cache.path,
                  fmt::format("has no layer {}; the layers it has are {} to {}", layer, layers.front(),
                              layers.back()));
}

}  // namespace

void check_parts(const Context& context, const CacheSource& source, const std::vector<Origin>& origins,
                 std::uint64_t layer) {
  for (const Origin& origin : origins) {
    const std::string path = join(source.directory, format::part_file(layer, origin.part));
    if (const std::string why = planted_link(context.os, source.directory, path); !why.empty())
      throw Error(path, why);
    if (!exists(context.os, path))
      throw Error(path, "is missing; build the layer with build-planescache, or leave it out with --layers");
    const std::uint64_t expected = source.facts.geometry.experts * section_bytes(origin.stored, source.shape);
    if (const auto bytes = static_cast<std::uint64_t>(status(context.os, path).st_size); bytes != expected)
      throw Error(path, fmt::format("has {} bytes, expected {} according to {}; build the layer again with "
                                    "build-planescache --force",
                                    bytes, expected, source.geometry_from));
  }
}

const std::vector<Xxh3>* CacheSource::known(const std::string& part_file) const {
  if (!manifest) return nullptr;
  for (const FileEntry& entry : manifest->files)
    if (entry.path == part_file) return &entry.blocks;
  throw Error(directory, fmt::format("its manifest does not list {}", part_file));
}

std::vector<CacheSource> cache_sources(const Context& context, const FromCacheRequest& request) {
  const Store store = scan_store(context.os, request.cache_root, "");
  std::vector<CacheSource> out;
  for (const auto& [rank, directories] : directories_by_rank(store, request)) {
    std::optional<KnownModel> model = model_in(store, directories.front()->meta->ckpt_id);
    if (!model) model = request.model;
    for (const FoundCache* cache : directories) {
      CacheSource source = open_source(context, *cache, model, request.drafts);
      for (const Tier tier : request.tiers) source.origins.push_back(origins(*source.facts.fp4, tier));
      const auto lacking = std::find_if(source.origins.begin(), source.origins.end(),
                                        [](const std::vector<Origin>& sections) { return sections.empty(); });
      if (lacking != source.origins.end()) {
        if (cache != directories.back()) continue;
        throw Error(
            cache->path,
            fmt::format(
                "the {} pack needs {} planes, which this cache does not have; build it from the checkpoint",
                name(request.tiers[static_cast<std::size_t>(lacking - source.origins.begin())]),
                source.facts.fp4 == format::Fp4Tier::quintal ? "FP4 nibble" : "FP4"));
      }
      check_layers(source, *cache, request);
      if (!source.manifest)
        context.progress.say(
            fmt::format("{} has no manifest: geometry from {}; its bytes are taken without verification, "
                        "because no digests are known",
                        cache->path, model->source));
      out.push_back(std::move(source));
      break;
    }
  }
  for (const CacheSource& source : out)
    if (source.facts.source != out.front().facts.source)
      throw Error(
          ErrorCode::difference, source.directory,
          fmt::format("was made from another checkpoint than {} (sources {} and {}); build one of them "
                      "again",
                      out.front().directory, short_fingerprint(source.facts.source),
                      short_fingerprint(out.front().facts.source)))
          .labelled("other-source");
  return out;
}

}  // namespace planesmith
