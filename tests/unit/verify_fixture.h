// Small caches, packs and trees with their manifests, and directories that must stay as they are.
#pragma once

#include <fmt/format.h>
#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "manifest/make_manifest.h"
#include "manifest/manifest.h"
#include "scratch.h"
#include "verify/verify_files.h"

namespace planesmith {

inline std::string some_bytes(std::size_t n, unsigned seed) {
  std::string out(n, '\0');
  for (char& c : out) c = static_cast<char>((seed = seed * 1664525u + 1013904223u) >> 24);
  return out;
}

inline void fill_in_digests(const Manifest& manifest, FileEntry& entry, const std::string& content) {
  for (const BlockRange& range : block_ranges(manifest, entry))
    entry.blocks.push_back(Xxh3::of(bytes_of(content).subspan(range.offset, range.size)));
  entry.xxh3 = combine(entry.blocks);
  entry.sha256 = sha256_hex(content);
}

// Two layers (1 and 2 of 3) of three experts, H = I = 64: sections of 2048, 256, 1024, 128, 4096 and 2048
// bytes.
inline CacheFacts small_facts(const std::string& ckpt_id) {
  return {
      .ckpt_id = ckpt_id, .zero_mode = format::ZeroMode::alt, .geometry = {3, 3, 64, 64}, .layers = {1, 2}};
}

// Writes the cache's part files, meta.json and manifest.json.
inline Manifest put_cache(const std::string& directory, const std::string& ckpt_id) {
  Manifest manifest{.kind = ManifestKind::planescache, .tool = "test", .facts = small_facts(ckpt_id)};
  manifest.facts->fp4 = format::Fp4Tier::nibble;
  std::filesystem::create_directories(directory);
  const format::RankShape shape = format::rank_shape(manifest.facts->geometry, 1);
  for (const std::uint64_t layer : manifest.facts->layers) {
    for (const format::Part& part : format::cache_parts(format::Fp4Tier::nibble)) {
      FileEntry entry{.path = format::part_file(layer, part.name),
                      .size = 3 * format::section_bytes(part.section, shape)};
      const std::string content = some_bytes(entry.size, static_cast<unsigned>(manifest.files.size()));
      put_file(join(directory, entry.path), content);
      fill_in_digests(manifest, entry, content);
      manifest.files.push_back(entry);
    }
  }
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  put_file(join(directory, "meta.json"), derived_files(manifest)[0].content);
  put_file(join(directory, "manifest.json"), to_json(manifest));
  return manifest;
}

// A base pack with layer keys 0 and 2 filled: slots of 3456 bytes in rows of 4096, holes for keys 1 and 3.
inline Manifest put_pack(const std::string& directory, const std::string& ckpt_id) {
  Manifest manifest{.kind = ManifestKind::pack, .tool = "test", .facts = small_facts(ckpt_id)};
  CacheFacts& facts = *manifest.facts;
  facts.tier = format::Tier::base;
  facts.layers = {0, 2};
  std::filesystem::create_directories(directory);
  const format::PackSpec spec = format::pack_spec(
      format::Tier::base, facts.geometry, format::rank_shape(facts.geometry, 1), ckpt_id, facts.zero_mode);
  const std::string stem = format::pack_stem(spec, 0, 1);
  std::string content(spec.file_bytes(), '\0');
  for (const std::uint64_t key : facts.layers)
    for (std::uint64_t e = 0; e < 3; ++e)
      content.replace(spec.row_offset(key, e), spec.slot_bytes,
                      some_bytes(spec.slot_bytes, static_cast<unsigned>(10 * key + e)));
  manifest.files = {{.path = stem + ".pack", .size = content.size()}};
  fill_in_digests(manifest, manifest.files[0], content);
  put_file(join(directory, stem + ".pack"), content);
  put_file(join(directory, stem + ".json"), derived_files(manifest)[0].content);
  put_file(join(directory, stem + ".lock"), "");
  put_file(join(directory, stem + ".pack.manifest.json"), to_json(manifest));
  return manifest;
}

inline void flip(const std::string& path, std::uint64_t offset) {
  File file = File::open_write(posix(), path);
  std::uint8_t byte = 0;
  file.read({&byte, 1}, offset);
  byte ^= 0x10;
  file.write({&byte, 1}, offset);
}

// Everything about a directory but access times.
inline std::string snapshot(const std::string& directory) {
  std::string out;
  std::vector<std::string> paths = {directory};
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  for (const std::string& path : paths) {
    struct stat st {};
    if (lstat(path.c_str(), &st) != 0) throw std::runtime_error("cannot stat " + path);
    for (const std::int64_t n :
         {std::int64_t(st.st_ino), std::int64_t(st.st_mode), st.st_size, st.st_mtim.tv_sec,
          st.st_mtim.tv_nsec, st.st_ctim.tv_sec, st.st_ctim.tv_nsec})
      out += std::to_string(n) + " ";
    out += path + "\n";
  }
  return out;
}

// A scratch root and what goes with verifying it. The user's cache, where interrupted verifications leave
// their notes, is the test's own.
struct VerifyFixture {
  Scratch scratch;
  std::string root = scratch / "root", notes = scratch / "notes";
  Context context;
  VerifyOptions options{.root = root};

  VerifyFixture() {
    setenv("XDG_CACHE_HOME", notes.c_str(), 1);
    std::filesystem::create_directories(root);
  }
  ~VerifyFixture() { unsetenv("XDG_CACHE_HOME"); }

  Verification verify(const Manifest& manifest) {
    return verify_files(context, manifest, to_json(manifest), options);
  }
  std::string at(const std::string& path) const { return join(root, path); }
};

// "kind path: what", one a line.
inline std::string told(const Verification& result) {
  std::string out;
  for (const Difference& d : result.differences)
    out += fmt::format("{} {}: {}\n", name(d.kind), d.path, d.what);
  return out;
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline Manifest tree_of(const VerifyFixture& fixture, Hashes hashes = {}) {
  return make_manifest(fixture.context, {fixture.root}, fixture.at("m.json"), hashes).manifest;
}
}  // namespace planesmith
