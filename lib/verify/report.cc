#include "verify/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "plan/describe.h"

namespace planesmith {
namespace {

// One line for the layers that hit, one with its reason for each that misses. all_miss: the reason was
// already given and holds for all.
void append_layers(std::string& text, const std::vector<LayerVerdict>& layers, bool all_miss) {
  std::vector<std::uint64_t> hits, others;
  for (const LayerVerdict& layer : layers) (layer.hit() ? hits : others).push_back(layer.index);
  if (!hits.empty()) {
    text += fmt::format("  hit   layers {}", number_list(hits, ", "));
    if (const std::size_t parts = layers.front().parts.size(); parts != 0)
      text += fmt::format(", {} parts each", parts);
    text += '\n';
  }
  if (all_miss) {
    if (!others.empty()) text += fmt::format("  MISS  layers {}\n", number_list(others, ", "));
    return;
  }
  for (const LayerVerdict& layer : layers) {
    if (!layer.miss.empty())
      text += fmt::format("  MISS  layer {}: {}\n", layer.index, printable(layer.miss));
    for (const PartVerdict& part : layer.parts)
      if (!part.miss.empty())
        text += fmt::format("  MISS  layer {}, {}: {} {}\n", layer.index, part.part, name_of(part.path),
                            part.miss);
  }
}

Json layers_json(const std::vector<LayerVerdict>& layers) {
  Json out = Json::array();
  for (const LayerVerdict& layer : layers) {
    Json one = {{"layer", layer.index}, {"key", layer.key}, {"hit", layer.hit()}};
    if (!layer.miss.empty()) one["reason"] = printable(layer.miss);
    for (const PartVerdict& part : layer.parts) {
      one["parts"].push_back({{"part", part.part},
                              {"file", name_of(part.path)},
                              {"bytes", part.bytes},
                              {"hit", part.miss.empty()}});
      if (!part.miss.empty()) one["parts"].back()["reason"] = part.miss;
    }
    out.push_back(std::move(one));
  }
  return out;
}

std::size_t count_misses(const BootVerdict& verdict) {
  std::size_t misses = 0;
  const auto count = [&](const std::vector<LayerVerdict>& layers) {
    for (const LayerVerdict& layer : layers) {
      misses += layer.miss.empty() ? 0 : 1;
      for (const PartVerdict& part : layer.parts) misses += part.miss.empty() ? 0 : 1;
    }
  };
  for (const CacheVerdict& cache : verdict.caches) {
    if (!cache.unread.empty())
      misses += verdict.hit() ? 0 : 1;
    else if (!cache.miss.empty())
      ++misses;
    else
      count(cache.layers);
  }
  for (const PackVerdict& pack : verdict.packs) {
    if (!pack.misses.empty())
      misses += pack.misses.size();
    else
      count(pack.layers);
  }
  return misses + verdict.findings.problems.size();
}

bool is_host(const BootVerdict& verdict) {
  return verdict.boot.mode && format::switches(*verdict.boot.mode).host;
}

std::string emptied_warning(const PackVerdict& pack) {
  return fmt::format(
      "at its first start the engine would replace {} by an empty pack; repair it or move it away first",
      printable(pack.path));
}

}  // namespace

std::string to_text(const BootVerdict& verdict) {
  const Boot& boot = verdict.boot;
  std::string text = fmt::format("identity {}, world {}, zero mode {}\n", printable(boot.ckpt_id), boot.world,
                                 format::name(boot.zero_mode));
  if (boot.mode) text += fmt::format("mode {}: {}\n", format::name(*boot.mode), format::summary(*boot.mode));
  if (verdict.model) {
    const format::Geometry& g = verdict.model->geometry;
    text += fmt::format("{} layers, {} of them sparse, {} experts, hidden {}, intermediate {}, from {}\n",
                        g.layers, verdict.model->layers.size(), g.experts, g.hidden, g.intermediate,
                        printable(verdict.model->source));
  }
  for (const CacheVerdict& cache : verdict.caches) {
    text += fmt::format("planes cache, rank {} of {}, FP4 {}: {}\n", cache.rank, boot.world,
                        format::name(boot.fp4), printable(cache.path));
    if (!cache.unread.empty()) {
      text += fmt::format("  {}  {}\n", is_host(verdict) ? "note:" : "MISS", cache.unread);
      continue;
    }
    if (!cache.miss.empty()) text += fmt::format("  MISS  {}\n", printable(cache.miss));
    append_layers(text, cache.layers, !cache.miss.empty());
  }
  for (const PackVerdict& pack : verdict.packs) {
    text += fmt::format("{} pack, rank {} of {} ({}): {}\n", format::name(pack.tier), pack.rank, boot.world,
                        format::purpose(pack.tier), printable(pack.path));
    for (const std::string& miss : pack.misses) text += fmt::format("  MISS  {}\n", printable(miss));
    append_layers(text, pack.layers, !pack.misses.empty());
    if (pack.emptied) text += fmt::format("  warning: {}\n", emptied_warning(pack));
  }
  for (const std::string& problem : verdict.findings.problems)
    text += fmt::format("problem: {}\n", printable(problem));
  for (const std::string& warning : verdict.findings.warnings)
    text += fmt::format("warning: {}\n", printable(warning));
  if (!verdict.found.empty()) text += "identities found there:\n";
  for (const std::string& identity : verdict.found) text += fmt::format("  {}\n", printable(identity));
  for (const std::vector<std::string>* notes : {&verdict.findings.notes, &verdict.notes})
    for (const std::string& note : *notes) text += fmt::format("note: {}\n", printable(note));
  if (verdict.hit())
    text += fmt::format("the engine would boot from this, with VLLM_MOE_W2_CKPT_ID={}\n",
                        printable(boot.ckpt_id));
  else
    text += fmt::format("the engine would NOT boot from this; reasons above: {}\n", count_misses(verdict));
  return text;
}

Json to_json(const BootVerdict& verdict) {
  const Boot& boot = verdict.boot;
  Json out = {{"hit", verdict.hit()},
              {"ckpt_id", boot.ckpt_id},
              {"world", boot.world},
              {"ranks", boot.ranks},
              {"zero_mode", format::name(boot.zero_mode)},
              {"problems", Json::array()},
              {"planescache", Json::array()},
              {"packs", Json::array()},
              {"found", Json::array()},
              {"warnings", Json::array()},
              {"notes", Json::array()}};
  if (verdict.model) {
    const format::Geometry& g = verdict.model->geometry;
    out["geometry"] = {{"layers", g.layers},
                       {"experts", g.experts},
                       {"hidden", g.hidden},
                       {"intermediate", g.intermediate},
                       {"sparse_layers", verdict.model->layers},
                       {"source", printable(verdict.model->source)}};
  }
  if (!verdict.environment.empty()) out["environment"] = verdict.environment;
  if (boot.mode) out["mode"] = format::name(*boot.mode);
  for (const std::string& problem : verdict.findings.problems) out["problems"].push_back(printable(problem));
  for (const std::string& warning : verdict.findings.warnings) out["warnings"].push_back(printable(warning));
  for (const CacheVerdict& cache : verdict.caches) {
    Json one = {{"rank", cache.rank},
                {"directory", printable(cache.path)},
                {"fp4", format::name(boot.fp4)},
                {"hit", cache.hit()},
                {"layers", layers_json(cache.layers)}};
    if (!cache.miss.empty() || !cache.unread.empty())
      one["reason"] = printable(cache.unread.empty() ? cache.miss : cache.unread);
    if (!cache.unread.empty()) one["read_by_engine"] = false;
    out["planescache"].push_back(std::move(one));
  }
  for (const PackVerdict& pack : verdict.packs) {
    Json one = {
        {"tier", format::name(pack.tier)},       {"rank", pack.rank}, {"pack", printable(pack.path)},
        {"purpose", format::purpose(pack.tier)}, {"hit", pack.hit()}, {"would_be_emptied", pack.emptied},
        {"layers", layers_json(pack.layers)}};
    for (const std::string& miss : pack.misses) one["reasons"].push_back(printable(miss));
    out["packs"].push_back(std::move(one));
    if (pack.emptied) out["warnings"].push_back(emptied_warning(pack));
  }
  for (const std::string& identity : verdict.found) out["found"].push_back(printable(identity));
  for (const std::vector<std::string>* notes : {&verdict.findings.notes, &verdict.notes})
    for (const std::string& note : *notes) out["notes"].push_back(printable(note));
  return out;
}

}  // namespace planesmith
