#include "tiers/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "page/page.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kPoints = 240;  // of a curve

double rounded(double share) {
  return std::round(share * 1e5) / 1e5;
}

// At most kPoints sizes, evenly spaced from no slots to all pairs.
std::vector<std::uint64_t> sizes(std::uint64_t pairs) {
  std::vector<std::uint64_t> out;
  const std::uint64_t points = std::min(pairs, kPoints);
  for (std::uint64_t i = 0; i <= points; ++i) out.push_back(points == 0 ? 0 : pairs * i / points);
  return out;
}

void add_curve(const TierReport& report, const Usage& usage, Json& json) {
  Json& curve = json["curve"] = {{"slots", Json::array()}, {"all", Json::array()}};
  for (const std::uint64_t slots : sizes(usage.pairs)) {
    curve["slots"].push_back(slots);
    curve["all"].push_back(rounded(usage.all.hit_rate(slots)));
  }
  curve["knee"] = usage.all.knee();
  json["gib_per_slot"] = nullptr;
  if (report.model)
    json["gib_per_slot"] =
        static_cast<double>(pool_slot_bytes(format::Mode::resident, report.model->geometry, report.world)) /
        static_cast<double>(kGiB);
}

void add_layers(const Usage& usage, Json& json) {
  json["layers"] = json["heat"] = json["gini"] = json["tenth"] = json["used"] = Json::array();
  for (const Usage::Layer& layer : usage.by_layer) {
    json["layers"].push_back(layer.layer);
    json["gini"].push_back(rounded(layer.gini));
    json["tenth"].push_back(rounded(layer.top10));
    json["used"].push_back(layer.pairs);
    Json row = Json::array();
    for (std::uint64_t e = 0; e < usage.experts; ++e)
      row.push_back(usage.count(static_cast<Pair>(layer.layer * usage.experts + e)));
    json["heat"].push_back(row);
  }
}

void add_windows(const Usage& usage, Json& json) {
  json["windows"] = {
      {"names", Json::array()}, {"knee", Json::array()}, {"fresh", Json::array()}, {"pairs", Json::array()}};
  for (const Usage::Window& window : usage.windows) {
    json["windows"]["names"].push_back(fmt::format("{}:{}", window.session, window.first_tick));
    json["windows"]["knee"].push_back(rounded(window.distances.hit_rate(usage.all.knee())));
    json["windows"]["pairs"].push_back(window.pairs);
    json["windows"]["fresh"].push_back(
        window.pairs == 0 ? 0
                          : rounded(static_cast<double>(window.fresh) / static_cast<double>(window.pairs)));
  }
}

}  // namespace

std::string tiers_page(const TierReport& report) {
  Json json = {{"title", printable(name_of(report.traces.front()))}, {"words", to_text(report)}};
  if (report.usage) {
    add_curve(report, *report.usage, json);
    add_layers(*report.usage, json);
    add_windows(*report.usage, json);
  }
  return fill_page(kTiersPage, json);
}

}  // namespace planesmith
