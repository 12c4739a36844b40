// Copies of golden caches and packs that a test may damage, and the reported misses as text.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "scratch.h"
#include "store/probe.h"

using namespace planesmith;
inline const std::string kGolden = SOURCE_DIR "/tests/golden/";

// A copy of a model's golden cache and packs. GLM: three layers, the first of them dense.
class Served {
 public:
  explicit Served(const std::string& name = "glm-nvfp4-mini") : model_(name) {
    copy_tree(kGolden + name + "/expected/tp1", dir_ / "served");
    root = dir_ / "served/planescache";
    store = dir_ / "served/store";
    for (const auto& key : std::filesystem::directory_iterator(root + "/v2"))
      directory = key.path() / "tp1-rank0";
    for (const auto& file : std::filesystem::directory_iterator(store)) {
      const std::string path = file.path();
      if (path.ends_with(".pack"))
        stem[name_of(path).substr(0, name_of(path).find('.'))] = path.substr(0, path.size() - 5);
    }
  }

  BootVerdict check(const BootRequest& request = {}, Os& os = posix()) const {
    const Store found = scan_store(os, root, store);
    const Boot boot = complete(request, found);
    return probe(os, found, boot, model_of_config(os, checkpoint()));
  }

  std::string checkpoint() const { return kGolden + model_ + "/checkpoint"; }

  std::string root, store, directory;
  std::map<std::string, std::string> stem;  // of each tier's pack: path without suffix

 private:
  Scratch dir_;
  std::string model_;
};

inline void replace_in(const std::string& path, const std::string& what, const std::string& by) {
  std::string text = file_contents(path);
  const std::size_t at = text.find(what);
  REQUIRE(at != text.npos);
  put_file(path, text.replace(at, what.size(), by));
}

// All reasons for misses, as "where: reason".
inline std::vector<std::string> misses(const BootVerdict& verdict) {
  std::vector<std::string> all;
  const auto take = [&](const std::string& where, const std::string& miss) {
    if (!miss.empty()) all.push_back(where + ": " + miss);
  };
  for (const CacheVerdict& cache : verdict.caches) {
    take("cache", cache.miss);
    for (const LayerVerdict& layer : cache.layers) {
      if (cache.miss.empty()) take("layer " + std::to_string(layer.index), layer.miss);
      for (const PartVerdict& part : layer.parts)
        take("layer " + std::to_string(layer.index) + " " + part.part, part.miss);
    }
  }
  for (const PackVerdict& pack : verdict.packs) {
    const std::string tier(format::name(pack.tier));
    for (const std::string& miss : pack.misses) take(tier, miss);
    for (const LayerVerdict& layer : pack.layers)
      if (pack.misses.empty()) take(tier, layer.miss);
  }
  return all;
}

using Misses = std::vector<std::string>;

inline std::vector<std::string> emptied(const BootVerdict& verdict) {
  std::vector<std::string> all;
  for (const PackVerdict& pack : verdict.packs)
    if (pack.emptied) all.emplace_back(format::name(pack.tier));
  return all;
}

inline std::string only_miss(const BootVerdict& verdict) {
  CHECK_FALSE(verdict.hit());
  const Misses all = misses(verdict);
  REQUIRE(all.size() == 1);
  return all.front();
}

inline bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != text.npos;
}
