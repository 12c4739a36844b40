// A small store of two ranks with caches, packs and manifests, for the tests of rekey and prune. Contents are
// made up: they only have to stay what they are.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <string>

#include "base/file.h"
#include "scratch.h"
#include "store/probe.h"

namespace rekey_store {

using namespace planesmith;

inline const format::Geometry kGeometry = {3, 1, 64, 128};  // the first of three layers is dense
inline const format::Tier kTiers[] = {format::Tier::base, format::Tier::delta};
constexpr std::uint64_t kWorld = 2;

inline std::string contents(const std::string& what, std::uint64_t bytes) {
  std::string text;
  while (text.size() < bytes) text += what + '\n';
  text.resize(bytes);
  return text;
}

inline Manifest manifest(ManifestKind kind, const std::string& ckpt_id, std::uint64_t rank,
                         std::vector<std::uint64_t> layers) {
  Manifest out;
  out.kind = kind;
  out.tool = "test";
  out.facts = CacheFacts{};
  out.facts->ckpt_id = ckpt_id;
  out.facts->world = kWorld;
  out.facts->rank = rank;
  out.facts->geometry = kGeometry;
  out.facts->layers = std::move(layers);
  return out;
}

// So many digests of made-up blocks: rekey reads no block.
inline void set_digests(FileEntry& file, std::size_t blocks) {
  file.blocks.assign(blocks, Xxh3::of(bytes_of("a block")));
  file.xxh3 = combine(file.blocks);
}

// Puts <dir>/cache and <dir>/store there.
inline void make(const std::string& dir, const std::string& ckpt_id) {
  const format::RankShape shape = format::rank_shape(kGeometry, kWorld);
  std::filesystem::create_directories(dir + "/store");
  for (std::uint64_t rank = 0; rank < kWorld; ++rank) {
    const format::CacheMeta meta{ckpt_id, kWorld, rank, format::ZeroMode::automatic, false};
    const std::string directory = dir + "/cache/" + format::cache_directory(meta), r = std::to_string(rank);
    std::filesystem::create_directories(directory);
    Manifest cache = manifest(ManifestKind::planescache, ckpt_id, rank, {1, 2});
    cache.facts->fp4 = format::Fp4Tier::none;
    for (const std::uint64_t layer : cache.facts->layers)
      for (const format::Part& part : format::cache_parts(format::Fp4Tier::none)) {
        const std::string name = format::part_file(layer, part.name);
        const std::uint64_t bytes = kGeometry.experts * format::section_bytes(part.section, shape);
        put_file(directory + "/" + name, contents(r + name, bytes));
        cache.files.push_back({});
        cache.files.back().path = name;
        cache.files.back().size = bytes;
        set_digests(cache.files.back(), kGeometry.experts);
      }
    std::sort(cache.files.begin(), cache.files.end(),
              [](const auto& a, const auto& b) { return a.path < b.path; });
    put_file(directory + "/manifest.json", to_json(cache));
    put_file(directory + "/meta.json", format::meta_json(meta));
    for (const format::Tier tier : kTiers) {
      const format::PackSpec spec = format::pack_spec(tier, kGeometry, shape, ckpt_id, meta.zero_mode);
      const std::string name = format::pack_stem(spec, rank, kWorld), stem = dir + "/store/" + name;
      Manifest pack = manifest(ManifestKind::pack, ckpt_id, rank, {0, 1});
      pack.facts->tier = tier;
      pack.files.push_back({});
      pack.files.back().path = name + ".pack";
      pack.files.back().size = spec.file_bytes();
      set_digests(pack.files.back(), 2 * kGeometry.experts * format::slot_sections(tier).size());
      put_file(stem + ".pack", contents(r + std::string(format::name(tier)), spec.file_bytes()));
      put_file(stem + ".json", format::sidecar_json(spec, {0, 1}));
      put_file(stem + ".lock", "");
      put_file(stem + ".pack.manifest.json", to_json(pack));
    }
  }
}

// Every file below dir: path and contents.
inline std::map<std::string, std::string> tree(const std::string& dir) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    const std::string name = entry.path().string().substr(dir.size() + 1);
    out[name] = entry.is_directory() ? "directory" : file_contents(entry.path());
  }
  return out;
}

// The store as it would have been made under this identity.
inline std::map<std::string, std::string> expected(const std::string& ckpt_id) {
  const Scratch dir;
  make(dir.path(), ckpt_id);
  return tree(dir.path());
}

// What the engine would find that asks for this identity.
inline BootVerdict ask(const std::string& dir, const std::string& ckpt_id) {
  Boot boot;
  boot.ckpt_id = ckpt_id;
  boot.world = kWorld;
  boot.ranks = {0, 1};
  boot.fp4 = format::Fp4Tier::none;
  boot.tiers.emplace(std::begin(kTiers), std::end(kTiers));
  const KnownModel model{kGeometry, {1, 2}, "test"};
  return probe(posix(), scan_store(posix(), dir + "/cache", dir + "/store"), boot, model);
}

}  // namespace rekey_store
