#include "store/probe.h"

#include <errno.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/file_status.h"
#include "base/json.h"
#include "store/planted.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kMostJson = 1 << 24;

// Why this process cannot access the path in this way; empty: it can. mode: R_OK, W_OK, X_OK.
std::string no_access(Os& os, const std::string& path, int mode) {
  const bool writing = (mode & W_OK) != 0;
  if (!accessible(os, path, mode))
    return fmt::format("is not {} ({})", writing ? "writable" : "readable", strerror(errno));
  if (writing && on_read_only_mount(os, path)) return "is not writable (read-only file system)";
  return "";
}

// Why a file below `base` is not a readable file of this length; empty: it is.
std::string file_defect(Os& os, const std::string& base, const std::string& path, std::uint64_t bytes) {
  if (std::string why = planted_link(os, base, path); !why.empty()) return why;
  struct stat st {};
  if (!stat_of(os, path, st))
    return errno == ENOENT || errno == ENOTDIR ? "is missing"
                                               : fmt::format("cannot be looked at ({})", strerror(errno));
  if (!S_ISREG(st.st_mode)) return "is not a regular file";
  const auto size = static_cast<std::uint64_t>(st.st_size);
  if (size < bytes) return fmt::format("is {} bytes short: {} bytes, expected {}", bytes - size, size, bytes);
  if (size > bytes)
    return fmt::format("is {} bytes too long: {} bytes, expected {}", size - bytes, size, bytes);
  return no_access(os, path, R_OK);
}

// How a JSON file differs from what the engine would ask, except in the key `ignored`; empty: not at all.
std::string json_defect(Os& os, const std::string& base, const std::string& path, const Json& asked,
                        const char* ignored = nullptr) {
  if (!exists(os, path)) return "is missing";
  if (std::string why = planted_link(os, base, path); !why.empty()) return why;
  Json found;
  try {
    found = read_json(os, path, kMostJson);
  } catch (const Error& error) {
    return "is unreadable: " + error.reason();
  }
  if (ignored != nullptr && found.is_object()) found.erase(ignored);
  return differences(found, asked);
}

Json asked_meta(const format::CacheMeta& meta) {
  return parse_json(format::meta_json(meta), "");
}
Json asked_sidecar(const format::PackSpec& spec) {
  Json object = parse_json(format::sidecar_json(spec, {}), "");
  object.erase("layers");
  return object;
}

// Describes the one of `all` that differs from `asked` in the fewest keys. json(x): the object that x stores,
// or none.
template <typename Found, typename ToJson>
std::string nearest(const std::vector<Found>& all, const Json& asked, ToJson json) {
  const Found* best = nullptr;
  std::size_t fewest = 0;
  for (const Found& found : all) {
    const std::optional<Json> object = json(found);
    if (!object) continue;
    std::size_t count = 0;
    for (const auto& [key, value] : asked.items()) count += object->at(key) != value ? 1 : 0;
    if (best == nullptr || count < fewest) {
      best = &found;
      fewest = count;
    }
  }
  if (best == nullptr) return "";
  const Json object = *json(*best);
  std::string text = differences(object, asked);
  if (fewest == 1 && object["ckpt_id"] != asked["ckpt_id"])
    text += fmt::format("; it would match only with the pin VLLM_MOE_W2_CKPT_ID={}",
                        object["ckpt_id"].get<std::string>());
  return text;
}

constexpr const char* kNoFp8Cache =
    "the engine neither reads nor writes a planes cache of an FP8 checkpoint: it reads and requantizes the "
    "checkpoint's experts at every start; a host mode with its packs avoids that";

bool has_no_cache(const std::optional<KnownModel>& model) {
  return model && model->family && !traits(*model->family).has_cache;
}

// The first mode that the files asked for can serve; if there is none, the first that opens one of the packs.
format::Mode mode_served(const Store& store, const Boot& boot, bool uncached) {
  std::optional<format::Fp4Tier> cache;
  if (!store.root.empty() && !uncached) cache = boot.fp4;
  const std::vector<format::Tier> tiers = store.directory.empty() ? std::vector<format::Tier>{} : *boot.tiers;
  if (const std::vector<format::Mode> modes = format::modes_served(cache, tiers); !modes.empty())
    return modes.front();
  for (const format::Mode mode : format::kModes)
    for (const format::Tier tier : tiers)
      if (format::opens(mode, tier)) return mode;
  return format::mode_of({false, boot.fp4 != format::Fp4Tier::none, boot.split});
}

class Probe {
 public:
  Probe(Os& os, const Store& store, const Boot& boot, const std::optional<KnownModel>& model,
        BootVerdict& verdict)
      : os_(os), store_(store), boot_(boot), model_(model), verdict_(verdict) {
    if (model_) shape_ = format::rank_shape(model_->geometry, boot.world);
  }

  void cache(std::uint64_t rank) {
    const format::CacheMeta meta{boot_.ckpt_id, boot_.world, rank, boot_.zero_mode, boot_.split};
    CacheVerdict verdict;
    verdict.rank = rank;
    verdict.path = join(store_.root, format::cache_directory(meta));
    verdict.miss = meta_miss(verdict.path, meta);
    if (has_no_cache(model_)) verdict.unread = kNoFp8Cache;
    if (verdict.miss.empty()) need_model(verdict.path);
    verdict.layers = all_layers();
    for (LayerVerdict& layer : verdict.layers) {
      if (!verdict.miss.empty()) {
        layer.miss = "meta.json does not match";
        continue;
      }
      for (const format::Part& part : format::cache_parts(boot_.fp4)) {
        const std::string path = join(verdict.path, format::part_file(layer.index, part.name));
        const std::uint64_t bytes = model_->geometry.experts * format::section_bytes(part.section, shape_);
        layer.parts.push_back(
            {std::string(part.name), path, file_defect(os_, store_.root, path, bytes), bytes});
      }
    }
    if (!verdict.hit() && verdict.unread.empty()) note_unwritable(verdict.path);
    verdict_.caches.push_back(std::move(verdict));
  }

  void pack(format::Tier tier, std::uint64_t rank) {
    PackVerdict verdict;
    verdict.tier = tier;
    verdict.rank = rank;
    std::vector<std::uint64_t> listed;
    if (model_)
      listed = look_at_pack(verdict);
    else
      refuse_pack_without_model(verdict);
    verdict.layers = all_layers();
    for (LayerVerdict& layer : verdict.layers) {
      if (!verdict.misses.empty())
        layer.miss = "the pack does not match";
      else if (!std::binary_search(listed.begin(), listed.end(), layer.key))
        layer.miss = fmt::format("the sidecar lists no layer {} (layer key {})", layer.index, layer.key);
    }
    verdict_.packs.push_back(std::move(verdict));
  }

 private:
  std::vector<LayerVerdict> all_layers() const {
    std::vector<LayerVerdict> layers;
    if (model_)
      for (const std::uint64_t index : model_->layers) layers.push_back({index, layers.size(), {}, ""});
    return layers;
  }

  // Checks everything about a pack but its layers; returns the layer keys that its sidecar lists.
  std::vector<std::uint64_t> look_at_pack(PackVerdict& verdict) {
    const format::PackSpec spec =
        format::pack_spec(verdict.tier, model_->geometry, shape_, boot_.ckpt_id, boot_.zero_mode);
    const std::string& directory = store_.places.of(verdict.rank);
    const std::string stem = join(directory, format::pack_stem(spec, verdict.rank, boot_.world));
    const std::string json = format::sidecar_file(stem), lock = format::lock_file(stem);
    verdict.path = format::pack_file(stem);
    const auto miss = [&](const char* what, const std::string& defect) {
      if (!defect.empty()) verdict.misses.push_back(what + defect);
    };

    std::vector<std::uint64_t> listed;
    std::string sidecar = json_defect(os_, directory, json, asked_sidecar(spec), "layers");
    if (sidecar.empty()) {
      try {
        listed = format::parse_sidecar(read_text(os_, json, kMostJson), json).layer_keys;
      } catch (const Error& error) {
        sidecar = "is unreadable: " + error.reason();
      }
    }
    const bool there = exists(os_, verdict.path);
    const std::string contents = file_defect(os_, directory, verdict.path, spec.file_bytes());
    if (sidecar == "is missing" && !there) {
      miss("", "the pack is not there" + nearest_pack(spec, verdict.rank));
    } else {
      miss("the sidecar ", sidecar);
      miss("the pack ", contents);
    }
    verdict.emptied = there && !(sidecar.empty() && contents.empty());

    // The engine opens pack and lock for reading and writing even if it only reads them.
    if (there && contents.empty()) miss("the pack ", no_access(os_, verdict.path, R_OK | W_OK));
    if (exists(os_, lock)) {
      miss("the .lock ",
           S_ISDIR(status(os_, lock).st_mode) ? "is a directory" : no_access(os_, lock, R_OK | W_OK));
    } else if (verdict.misses.empty()) {
      miss("the .lock is missing, and the directory ", no_access(os_, directory, W_OK | X_OK));
      if (verdict.misses.empty()) verdict_.notes.push_back(lock + " is missing; the engine will make it");
    }
    return listed;
  }

  // A pack's name follows from the geometry. Without a model the only possible verdict is that no pack has
  // this identity.
  void refuse_pack_without_model(PackVerdict& verdict) {
    verdict.path =
        join(store_.places.of(verdict.rank),
             format::pack_file(format::pack_stem(format::tag(verdict.tier), "*", verdict.rank, boot_.world)));
    for (const FoundPack& pack : store_.packs)
      if (pack.sidecar && pack.sidecar->spec.ckpt_id == boot_.ckpt_id) need_model(pack.stem);
    verdict.misses.push_back("no pack of this identity is there");
  }

  void need_model(const std::string& path) const {
    if (!model_)
      throw Error(ErrorCode::usage, path,
                  "has no manifest that says the model's geometry; give --config, --profile or --checkpoint");
  }

 private:
  std::string meta_miss(const std::string& path, const format::CacheMeta& meta) const {
    if (exists(os_, path)) {
      const std::string defect =
          json_defect(os_, store_.root, join(path, format::kMetaName), asked_meta(meta));
      return defect.empty() ? "" : "meta.json " + defect;
    }
    const std::string near = nearest(store_.caches, asked_meta(meta), [](const FoundCache& cache) {
      return cache.meta ? std::optional<Json>(asked_meta(*cache.meta)) : std::nullopt;
    });
    if (near.empty()) return "the directory is not there, nor is one of any other identity";
    return "the directory is not there; the nearest one's meta.json " + near;
  }

  std::string nearest_pack(const format::PackSpec& spec, std::uint64_t rank) const {
    const std::string near = nearest(store_.packs, asked_sidecar(spec), [&](const FoundPack& pack) {
      const bool comparable = pack.sidecar && tag(pack.sidecar->spec.tier) == tag(spec.tier) &&
                              pack.rank == rank && pack.world == boot_.world;
      return comparable ? std::optional<Json>(asked_sidecar(pack.sidecar->spec)) : std::nullopt;
    });
    return near.empty() ? "" : "; the nearest one's sidecar " + near;
  }

  // The engine builds what misses and tries to store it.
  void note_unwritable(std::string path) {
    while (!exists(os_, path) && path != parent_of(path)) path = parent_of(path);
    const std::string defect = no_access(os_, path, W_OK | X_OK);
    if (!defect.empty())
      verdict_.notes.push_back(fmt::format("{} {}; the engine could not keep what it makes", path, defect));
  }

  Os& os_;
  const Store& store_;
  const Boot& boot_;
  const std::optional<KnownModel>& model_;
  BootVerdict& verdict_;
  format::RankShape shape_;
};

}  // namespace

bool LayerVerdict::hit() const {
  return miss.empty() &&
         std::all_of(parts.begin(), parts.end(), [](const PartVerdict& part) { return part.miss.empty(); });
}
bool CacheVerdict::hit() const {
  return miss.empty() && unread.empty() &&
         std::all_of(layers.begin(), layers.end(), [](const LayerVerdict& layer) { return layer.hit(); });
}
bool PackVerdict::hit() const {
  return misses.empty() &&
         std::all_of(layers.begin(), layers.end(), [](const LayerVerdict& layer) { return layer.hit(); });
}
bool BootVerdict::hit() const {
  const bool packs_do = !packs.empty() && boot.mode && format::switches(*boot.mode).host;
  return std::all_of(
             caches.begin(), caches.end(),
             [&](const CacheVerdict& cache) { return cache.hit() || (packs_do && !cache.unread.empty()); }) &&
         std::all_of(packs.begin(), packs.end(), [](const PackVerdict& pack) { return pack.hit(); }) &&
         findings.problems.empty();
}

BootVerdict probe(Os& os, const Store& store, const Boot& boot, const std::optional<KnownModel>& model) {
  BootVerdict verdict;
  verdict.boot = boot;
  if (model) {
    if (!boot.drafts) verdict.boot.drafts = drafts_there(store, boot, *model);
    verdict.model = with_drafts(*model, *verdict.boot.drafts);
  }
  Probe probe(os, store, boot, verdict.model, verdict);
  if (!boot.tiers) verdict.boot.tiers = tiers_there(store, boot, verdict.model);
  if (!boot.mode) verdict.boot.mode = mode_served(store, verdict.boot, has_no_cache(model));
  if (!store.root.empty())
    for (const std::uint64_t rank : boot.ranks) probe.cache(rank);
  if (!store.directory.empty())
    for (const format::Tier tier : *verdict.boot.tiers)
      for (const std::uint64_t rank : boot.ranks) probe.pack(tier, rank);

  const auto asked_for = [&](const FoundIdentity& identity) {
    return identity.ckpt_id == boot.ckpt_id && identity.world == boot.world &&
           identity.zero_mode == boot.zero_mode;
  };
  const std::vector<FoundIdentity> found = identities(store);
  if (std::none_of(found.begin(), found.end(), asked_for))
    for (const FoundIdentity& identity : found) verdict.found.push_back(describe(identity));
  for (const FoundCache& cache : store.caches)
    if (!cache.note.empty()) verdict.notes.push_back(cache.path + ": " + cache.note);
  for (const FoundPack& pack : store.packs)
    if (!pack.note.empty()) verdict.notes.push_back(pack.stem + ": " + pack.note);
  return verdict;
}

}  // namespace planesmith
