#include "store/store.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "base/error.h"
#include "base/file.h"
#include "base/file_status.h"
#include "base/json.h"
#include "base/text.h"
#include "store/planted.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kMostMeta = 1 << 20, kMostSidecar = 1 << 24;

// status() throws where a path exists but cannot be read, which is not the same as a missing one.
bool is_directory(Os& os, const std::string& path) {
  return exists(os, path) && S_ISDIR(status(os, path).st_mode);
}

// Error: the path is a link that is not followed.
void refuse_planted(Os& os, const std::string& path) {
  if (const std::string why = planted_link(os, parent_of(path), path); !why.empty()) throw Error(path, why);
}
// Whether the path is such a link; notes it if so.
bool is_planted(Os& os, const std::string& path) {
  const std::string why = planted_link(os, parent_of(path), path);
  if (!why.empty()) os.note_once(path, printable(fmt::format("{}: {}", path, why)));
  return !why.empty();
}

// Takes the facts of the manifest, if it exists and fits(facts) holds.
template <typename Found, typename Fits>
void take_facts(Os& os, Found& found, Fits fits) {
  const std::string path = found.manifest_path();
  try {
    if (!exists(os, path)) return;
    refuse_planted(os, path);
    const Manifest manifest = read_manifest(os, path);
    if (manifest.facts && fits(*manifest.facts))
      found.facts = manifest.facts;
    else
      found.note = name_of(path) + " is of another cache or pack and is ignored";
  } catch (const Error& error) {
    found.note = fmt::format("{} cannot be used: {}", name_of(path), error.reason());
  }
}

// Takes the source from the manifest, or from the records of an unfinished build.
template <typename Found>
void take_source(Os& os, Found& found, const std::string& records) {
  if (found.facts) found.source = found.facts->source;
  if (!found.source.empty() || !found.unfinished) return;
  const Context context{os};
  const OutputDir directory(os, parent_of(found.manifest_path()), ".");
  try {
    found.source = Records(context, directory, records, name_of(found.manifest_path()), "").source();
  } catch (const Error&) {  // records that are not ours are ignored
  }
}

FoundCache look_at_cache(Os& os, const std::string& root, const std::string& name) {
  FoundCache cache;
  cache.name = name;
  cache.path = join(root, name);
  std::vector<std::string> files;
  try {
    if (const std::string why = planted_link(os, root, cache.path); !why.empty())
      throw Error(cache.path, why);
    files = list_dir(os, cache.path);
  } catch (const Error& error) {
    cache.problem = "directory: " + error.reason();  // only this rank; the others are still listed
    return cache;
  }
  for (const std::string& file : files) {
    struct stat st {};
    if (!stat_of(os, join(cache.path, file), st)) continue;  // a broken link, or removed since
    if (file == format::kCacheRecords) cache.unfinished = true;
    if (!S_ISREG(st.st_mode)) continue;
    const auto bytes = static_cast<std::uint64_t>(st.st_size);
    cache.bytes += bytes;
    const std::optional<format::PartFile> part = format::parse_part_file(file);
    if (!part || is_planted(os, join(cache.path, file))) continue;
    if (part->layer < format::kMostLayers)  // bounds the work of code that walks over missing layers
      cache.layers[part->layer][std::string(part->part)] = bytes;
    else
      os.note_once(file, fmt::format("{}: no model has such a layer; ignored", join(cache.path, file)));
  }
  const std::string path = join(cache.path, format::kMetaName);
  try {
    refuse_planted(os, path);
    const format::CacheMeta meta = format::parse_meta(read_text(os, path, kMostMeta), path);
    if (format::cache_directory(meta) == name)
      cache.meta = meta;
    else
      cache.problem = fmt::format("meta.json has identity '{}', for which the engine looks in {}",
                                  meta.ckpt_id, format::cache_directory(meta));
  } catch (const Error& error) {
    cache.problem = exists(os, path) ? "meta.json: " + error.reason() : "meta.json is missing";
  }
  if (cache.meta)
    take_facts(os, cache, [&](const CacheFacts& facts) {
      const format::CacheMeta& meta = *cache.meta;
      return facts.fp4 && facts.ckpt_id == meta.ckpt_id && facts.world == meta.world &&
             facts.rank == meta.rank && facts.zero_mode == meta.zero_mode &&
             (facts.fp4 == format::Fp4Tier::quintal) == meta.split;
    });
  take_source(os, cache, std::string(format::kCacheRecords));
  return cache;
}

FoundPack look_at_pack(Os& os, const std::string& stem, std::uint64_t rank, std::uint64_t world) {
  FoundPack pack;
  pack.stem = stem;
  pack.rank = rank;
  pack.world = world;
  struct stat st {};
  const std::string contents = format::pack_file(stem);
  if (stat_of(os, contents, st) && S_ISREG(st.st_mode) && !is_planted(os, contents)) {
    pack.bytes = static_cast<std::uint64_t>(st.st_size);
    pack.allocated = static_cast<std::uint64_t>(st.st_blocks) * 512;
  }
  if (stat_of(os, pack.heat_path(), st) && S_ISREG(st.st_mode) && !is_planted(os, pack.heat_path()))
    pack.heat = static_cast<std::uint64_t>(st.st_size);
  pack.unfinished = is_directory(os, format::pack_records(stem));
  const std::string path = format::sidecar_file(stem);
  try {
    refuse_planted(os, path);
    format::Sidecar sidecar = format::parse_sidecar(read_text(os, path, kMostSidecar), path);
    if (format::pack_stem(sidecar.spec, rank, world) == name_of(stem))
      pack.sidecar = std::move(sidecar);
    else
      pack.problem = fmt::format("the sidecar has identity '{}', for which the engine looks at {}",
                                 sidecar.spec.ckpt_id, format::pack_stem(sidecar.spec, rank, world));
  } catch (const Error& error) {
    pack.problem = exists(os, path) ? "sidecar: " + error.reason() : "the sidecar is missing";
  }
  // The name contains a digest of the sidecar, so the manifest is compared with the name and needs no
  // sidecar.
  take_facts(os, pack, [&](const CacheFacts& facts) {
    return facts.tier && facts.world == world && facts.rank == rank &&
           format::pack_stem(
               format::pack_spec(*facts.tier, facts.geometry, format::rank_shape(facts.geometry, world),
                                 facts.ckpt_id, facts.zero_mode),
               rank, world) == name_of(stem);
  });
  take_source(os, pack, format::pack_records(name_of(stem)));
  return pack;
}

void find_pool_heat(Os& os, const std::string& directory, std::vector<PoolHeat>& found) {
  for (const std::string& file : list_dir(os, directory)) {
    const std::optional<format::PoolHeatName> name = format::parse_pool_heat_file(file);
    struct stat st {};
    const std::string path = join(directory, file);
    if (name && stat_of(os, path, st) && S_ISREG(st.st_mode))
      found.push_back(
          {path, std::string(name->tag), name->rank, name->world, static_cast<std::uint64_t>(st.st_size)});
  }
}

// Sets the model of a cache: from its own manifest, else `model` with the drafters that the cache has layers
// of.
void tell(FoundCache& cache, const std::optional<KnownModel>& model) {
  if (cache.facts)
    cache.model = model_of_manifest(*cache.facts, cache.manifest_path());
  else if (model)
    cache.model = with_drafts(*model, drafts_of(cache, *model));
}

// Sets the model of a pack, with the drafters that it has room for; this also settles its tier.
void tell(FoundPack& pack, const std::optional<KnownModel>& model) {
  if (!model) return;
  pack.model = model;
  if (!pack.sidecar) return;
  pack.model = with_drafts(*model, drafts_of(pack, *model).value_or(model->geometry.drafts));
  format::PackSpec& spec = pack.sidecar->spec;
  try {
    spec.tier = settled_tier(spec, format::rank_shape(model->geometry, pack.world));
  } catch (const Error&) {
    // The pack has another geometry; is_whole() and check report that.
  }
}

}  // namespace

std::uint64_t drafts_of(const FoundCache& cache, const KnownModel& model) {
  const std::uint64_t end = cache.layers.empty() ? 0 : cache.layers.rbegin()->first + 1;
  return end > model.geometry.layers ? std::min(end - model.geometry.layers, format::kMostDrafts) : 0;
}

std::optional<std::uint64_t> drafts_of(const FoundPack& pack, const KnownModel& model) {
  const std::uint64_t without = model.geometry.layers + 1;
  if (!pack.sidecar || pack.sidecar->spec.n_layers < without ||
      pack.sidecar->spec.n_layers - without > format::kMostDrafts)
    return std::nullopt;
  return pack.sidecar->spec.n_layers - without;
}

format::Fp4Tier FoundCache::fp4() const {
  if (facts) return *facts->fp4;
  if (meta && meta->split) return format::Fp4Tier::quintal;
  const bool any = std::any_of(layers.begin(), layers.end(), [](const auto& layer) {
    return layer.second.contains("fp13") || layer.second.contains("fp2");
  });
  return any ? format::Fp4Tier::nibble : format::Fp4Tier::none;
}

std::optional<std::uint64_t> FoundCache::part_bytes(std::uint64_t layer, std::string_view part) const {
  const auto files = layers.find(layer);
  if (files == layers.end()) return std::nullopt;
  const auto file = files->second.find(std::string(part));
  return file == files->second.end() ? std::nullopt : std::optional(file->second);
}

Store scan_store(Os& os, const std::string& root, const PackDirs& places) {
  Store store;
  store.root = root;
  store.places = places;
  if (!places.empty()) store.directory = places.all().front();
  const std::string level = join(root, format::kCacheLevel);
  if (!root.empty() && exists(os, level) && !is_planted(os, level)) {
    for (const std::string& key : list_dir(os, level)) {
      if (!is_directory(os, join(level, key)) || is_planted(os, join(level, key))) continue;
      for (const std::string& rank : list_dir(os, join(level, key)))
        if (format::is_rank_directory(rank) && is_directory(os, join(join(level, key), rank)))
          store.caches.push_back(
              look_at_cache(os, root, fmt::format("{}/{}/{}", format::kCacheLevel, key, rank)));
    }
  }
  for (const std::string& directory : places.all()) {
    if (!exists(os, directory)) continue;
    std::set<std::string> stems;  // a manifest or .lock alone is not a pack
    for (const std::string& file : list_dir(os, directory))
      if (const std::string stem = format::stem_of_file(file);
          !stem.empty() && file != format::pack_manifest_file(stem))
        stems.insert(stem);
    for (const std::string& stem : stems) {
      const format::PackStem name = *format::parse_pack_stem(stem);
      store.packs.push_back(look_at_pack(os, join(directory, stem), name.rank, name.world));
    }
    find_pool_heat(os, directory, store.pool_heat);
  }
  // Without a directory of packs the engine writes heat files to the root of the cache.
  if (!root.empty() && exists(os, root)) find_pool_heat(os, root, store.pool_heat);
  for (FoundCache& cache : store.caches)
    if (cache.meta) tell(cache, model_in(store, cache.meta->ckpt_id));
  for (FoundPack& pack : store.packs)
    if (pack.sidecar) tell(pack, model_in(store, pack.sidecar->spec.ckpt_id));
  return store;
}

void tell_model(Store& store, const KnownModel& model) {
  for (FoundCache& cache : store.caches)
    if (!cache.model) tell(cache, model);
  for (FoundPack& pack : store.packs)
    if (!pack.model) tell(pack, model);
}

std::optional<KnownModel> model_in(const Store& store, const std::string& ckpt_id) {
  for (const FoundCache& cache : store.caches)
    if (cache.facts && cache.facts->ckpt_id == ckpt_id)
      return model_of_manifest(*cache.facts, cache.manifest_path());
  for (const FoundPack& pack : store.packs)
    if (pack.facts && pack.facts->ckpt_id == ckpt_id)
      return model_of_manifest(*pack.facts, pack.manifest_path());
  return std::nullopt;
}

std::vector<FoundIdentity> identities(const Store& store) {
  std::vector<FoundIdentity> found;
  const auto same = [](const FoundIdentity& identity, const std::string& ckpt_id, std::uint64_t world,
                       format::ZeroMode zero_mode) {
    return std::tie(identity.ckpt_id, identity.world, identity.zero_mode) ==
           std::tie(ckpt_id, world, zero_mode);
  };
  for (const FoundCache& cache : store.caches) {
    if (!cache.meta) continue;
    const format::CacheMeta& meta = *cache.meta;
    auto at = std::find_if(found.begin(), found.end(), [&](const FoundIdentity& identity) {
      return same(identity, meta.ckpt_id, meta.world, meta.zero_mode) && identity.split == meta.split;
    });
    if (at == found.end())
      at = found.insert(at, {meta.ckpt_id, meta.world, meta.zero_mode, meta.split, {}, {}});
    at->caches.push_back(&cache);
  }
  for (const FoundPack& pack : store.packs) {
    if (!pack.sidecar) continue;
    const format::PackSpec& spec = pack.sidecar->spec;
    bool taken = false;
    for (FoundIdentity& identity : found) {
      if (!same(identity, spec.ckpt_id, pack.world, spec.zero_mode)) continue;
      identity.packs.push_back(&pack);
      taken = true;
    }
    if (!taken) found.push_back({spec.ckpt_id, pack.world, spec.zero_mode, std::nullopt, {}, {&pack}});
  }
  std::sort(found.begin(), found.end(), [](const FoundIdentity& a, const FoundIdentity& b) {
    return std::tie(a.ckpt_id, a.world, a.zero_mode, a.split) <
           std::tie(b.ckpt_id, b.world, b.zero_mode, b.split);
  });
  return found;
}

std::string describe(const FoundIdentity& identity) {
  return fmt::format("'{}' (world {}, zero mode {}{})", identity.ckpt_id, identity.world,
                     format::name(identity.zero_mode), identity.split.value_or(false) ? ", split" : "");
}

std::string defect(const FoundCache& cache) {
  if (!cache.problem.empty()) return cache.problem;
  if (cache.unfinished) return "its build has not finished";
  if (cache.layers.empty()) return "holds no layer";
  const std::vector<format::Part> parts = format::cache_parts(cache.fp4());
  // Without a model the first layer that has a part defines how long it should be.
  std::map<std::string_view, std::uint64_t> sizes;
  std::vector<std::uint64_t> layers;
  if (cache.model) {
    layers = cache.model->layers;
    try {
      const format::RankShape shape = format::rank_shape(cache.model->geometry, cache.meta->world);
      for (const format::Part& part : parts)
        sizes[part.name] = cache.model->geometry.experts * format::section_bytes(part.section, shape);
    } catch (const Error& error) {  // the model cannot be cut into such a world
      return fmt::format("meta.json says world {}: {}", cache.meta->world, error.reason());
    }
  } else {
    for (std::uint64_t layer = cache.layers.begin()->first; layer <= cache.layers.rbegin()->first; ++layer)
      layers.push_back(layer);
  }
  for (const std::uint64_t layer : layers) {
    if (!cache.layers.contains(layer)) return fmt::format("layer {} is missing", layer);
    for (const format::Part& part : parts) {
      const std::optional<std::uint64_t> bytes = cache.part_bytes(layer, part.name);
      if (!bytes) return format::part_file(layer, part.name) + " is missing";
      const std::uint64_t expected = sizes.emplace(part.name, *bytes).first->second;
      if (*bytes != expected)
        return fmt::format("{} has {} bytes, expected {}", format::part_file(layer, part.name), *bytes,
                           expected);
    }
  }
  return "";
}

std::string defect(const FoundPack& pack) {
  if (!pack.problem.empty()) return pack.problem;
  if (!pack.bytes) return "the .pack is missing";
  const format::Sidecar& sidecar = *pack.sidecar;
  if (*pack.bytes != sidecar.spec.file_bytes())
    return fmt::format("the .pack has {} bytes, expected {}", *pack.bytes, sidecar.spec.file_bytes());
  if (pack.unfinished) return "its build has not finished";
  if (sidecar.layer_keys.empty()) return "lists no layer";
  const std::uint64_t end = pack.model ? pack.model->layers.size() : sidecar.layer_keys.back() + 1;
  for (std::uint64_t key = 0; key < end; ++key)
    if (!std::binary_search(sidecar.layer_keys.begin(), sidecar.layer_keys.end(), key))
      return fmt::format("the sidecar lists no layer key {}", key);
  return "";
}

std::string defect(const FoundIdentity& identity) {
  const auto lacks_rank = [&](const auto& all, auto rank_of) -> std::optional<std::uint64_t> {
    std::set<std::uint64_t> ranks;
    for (const auto* one : all) ranks.insert(rank_of(*one));
    for (std::uint64_t rank = 0; rank < identity.world; ++rank)
      if (!ranks.contains(rank)) return rank;
    return std::nullopt;
  };
  if (!identity.caches.empty())
    if (const auto rank =
            lacks_rank(identity.caches, [](const FoundCache& cache) { return cache.meta->rank; }))
      return fmt::format("the planes cache lacks rank {}", *rank);
  for (const format::Tier tier : format::kTiers) {
    std::vector<const FoundPack*> packs;
    for (const FoundPack* pack : identity.packs)
      if (pack->sidecar->spec.tier == tier) packs.push_back(pack);
    if (packs.empty()) continue;
    if (const auto rank = lacks_rank(packs, [](const FoundPack& pack) { return pack.rank; }))
      return fmt::format("the {} pack lacks rank {}", format::name(tier), *rank);
  }
  return "";
}

bool is_whole(const FoundIdentity& identity) {
  const auto sound = [](const auto* one) { return defect(*one).empty(); };
  return defect(identity).empty() && std::all_of(identity.caches.begin(), identity.caches.end(), sound) &&
         std::all_of(identity.packs.begin(), identity.packs.end(), sound);
}

bool is_judged(const FoundIdentity& identity) {
  const auto known = [](const auto* one) { return one->model.has_value(); };
  return std::all_of(identity.caches.begin(), identity.caches.end(), known) &&
         std::all_of(identity.packs.begin(), identity.packs.end(), known);
}

std::string differences(const Json& found, const Json& asked) {
  if (!found.is_object()) return "is not a JSON object";
  const auto shown = [](const Json& value) {
    return value.dump(-1, ' ', true, Json::error_handler_t::replace);
  };
  std::vector<std::string> all;
  for (const auto& [key, value] : asked.items())
    if (const auto at = found.find(key); at != found.end() && *at != value)
      all.push_back(fmt::format("{}in {}: cache has {}, engine would ask {}", all.empty() ? "differs " : "",
                                key, shown(*at), shown(value)));
  for (const auto& [key, value] : asked.items())
    if (!found.contains(key)) all.push_back("lacks " + key);
  for (const auto& [key, value] : found.items())
    if (!asked.contains(key)) all.push_back(fmt::format("has {}, one key more than the engine writes", key));
  return fmt::format("{}", fmt::join(all, "; "));
}

}  // namespace planesmith
