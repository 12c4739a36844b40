#include "tiers/report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/size.h"
#include "base/text.h"

namespace planesmith {
namespace {

double gib(std::uint64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

// Bytes of `slots` in the pool of the engine's default mode; null: the model is not known.
Json pool_bytes(const TierReport& report, std::uint64_t slots) {
  if (!report.model) return nullptr;
  return slots * pool_slot_bytes(format::Mode::resident, report.model->geometry, report.world);
}

Json point(const TierReport& report, const Distances& curve, std::uint64_t slots) {
  return {{"slots", slots},
          {"hits", curve.hits(slots)},
          {"hit_rate", curve.hit_rate(slots)},
          {"bytes", pool_bytes(report, slots)}};
}

Json rates(const TierReport& report, const Distances& curve) {
  Json list = Json::array();
  for (const std::uint64_t slots : report.slots) list.push_back(curve.hit_rate(slots));
  return list;
}

Json reach_json(const TierReport& report, const Distances& curve) {
  Json list = Json::array();
  for (const double target : kReach) {
    const auto slots = curve.slots_for(target);
    Json row = {{"hit_rate", target}, {"slots", nullptr}, {"bytes", nullptr}};
    if (slots) {
      row["slots"] = *slots;
      row["bytes"] = pool_bytes(report, *slots);
      if (report.model)
        for (const format::Mode mode : format::kModes)
          row["gib"][std::string(name(mode))] =
              gib(*slots * pool_slot_bytes(mode, report.model->geometry, report.world));
    }
    list.push_back(row);
  }
  return list;
}

void add_usage(const TierReport& report, const Usage& usage, Json& json) {
  json["sessions"] = usage.counts.size();
  json["ticks"] = usage.ticks;
  json["accesses"] = usage.all.accesses;
  json["pairs"] = usage.pairs;
  json["layers"] = Json::array();
  for (const Usage::Layer& layer : usage.by_layer)
    json["layers"].push_back({{"layer", layer.layer},
                              {"accesses", layer.distances.accesses},
                              {"pairs", layer.pairs},
                              {"gini", layer.gini},
                              {"hottest_tenth", layer.top10},
                              {"hit_rates", rates(report, layer.distances)}});
  json["windows"] = Json::array();
  for (const Usage::Window& window : usage.windows)
    json["windows"].push_back({{"session", window.session},
                               {"first_tick", window.first_tick},
                               {"last_tick", window.last_tick},
                               {"accesses", window.distances.accesses},
                               {"pairs", window.pairs},
                               {"fresh", window.fresh},
                               {"hit_rates", rates(report, window.distances)}});
  json["lru"] = Json::array();
  for (const std::uint64_t slots : report.slots) json["lru"].push_back(point(report, usage.all, slots));
  json["most_hit_rate"] = usage.all.hit_rate(usage.pairs);
  json["knee"] = point(report, usage.all, usage.all.knee());
  json["reach"] = reach_json(report, usage.all);
  json["stability"] = usage.stability;
}

Json replay_json(const TierReport& report, const Replay& replay) {
  Json json = {{"policy", replay.policy},
               {"slots", replay.slots},
               {"accesses", replay.accesses},
               {"hits", replay.hits},
               {"hit_rate", replay.hit_rate()},
               {"promotions", replay.promotions},
               {"evictions", replay.evictions},
               {"coverage",
                replay.slots == 0 ? 0 : static_cast<double>(replay.held) / static_cast<double>(replay.slots)},
               {"layers_covered", replay.layers_covered},
               {"cold_ticks", {{"median", replay.cold_median}, {"p90", replay.cold_p90}}},
               {"bytes_per_tick", nullptr},
               {"bytes_per_second", nullptr}};
  if (report.model && replay.ticks != 0) {
    const double per_tick =
        static_cast<double>(replay.promotions) / static_cast<double>(replay.ticks) *
        static_cast<double>(pool_slot_bytes(format::Mode::resident, report.model->geometry, report.world));
    json["bytes_per_tick"] = per_tick;
    json["bytes_per_second"] = per_tick * report.token_rate;
  }
  return json;
}

Json pool_json(const std::optional<PoolAdvice>& pool) {
  if (!pool) return nullptr;
  return {{"slots", pool->slots},
          {"slot_bytes", pool->slot_bytes},
          {"hit_rate", pool->hit_rate},
          {"gib", pool->gib}};
}

// The engine's variables for this advice.
Json environment(const ModeAdvice& advice) {
  Json json = Json::object();
  const auto value = [](double gib) { return fmt::format("{:.2f}", gib); };
  if (advice.delta) json["VLLM_MOE_W2_DELTA_GB"] = value(advice.delta->gib);
  if (advice.base) json["VLLM_MOE_W2_BASE_CACHE_GB"] = value(advice.base->gib);
  if (advice.base_ram_gb) json["VLLM_MOE_W2_BASE_RAM_GB"] = value(*advice.base_ram_gb);
  return json;
}

Json history_json(const PoolHistory& history) {
  const auto per_tick = [&](std::uint64_t n) {
    return history.ticks() == 0 ? 0 : static_cast<double>(n) / static_cast<double>(history.ticks());
  };
  return {{"snapshots", history.snapshots},
          {"first_tick", history.first_tick},
          {"last_tick", history.last_tick},
          {"slots", history.slots},
          {"occupancy", history.occupancy},
          {"pairs", history.held.size()},
          {"layers_covered", history.layers_covered},
          {"promotions_per_tick", per_tick(history.promotions)},
          {"evictions_per_tick", per_tick(history.evictions)},
          {"churn", history.churn}};
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", 100 * share);
}

void curve_text(const TierReport& report, const Usage& usage, std::string& text) {
  text += fmt::format("{} accesses in {} ticks of {} session{}: {} pairs of layer and expert in {} layers\n",
                      usage.all.accesses, usage.ticks, usage.counts.size(),
                      usage.counts.size() == 1 ? "" : "s", usage.pairs, usage.by_layer.size());
  const auto row = [&](std::uint64_t slots) {
    text += fmt::format("{:>10} {:>9}", slots, percent(usage.all.hit_rate(slots)));
    if (report.model) text += fmt::format(" {:>10.2f}", gib(pool_bytes(report, slots).get<std::uint64_t>()));
    text += "\n";
  };
  text += fmt::format("\n{:>10} {:>9}{}\n", "slots", "hits", report.model ? "   pool GiB" : "");
  for (const std::uint64_t slots : report.slots) row(slots);
  text +=
      fmt::format("\nthe curve bends at {} slots ({}); no size exceeds {}\n", usage.all.knee(),
                  percent(usage.all.hit_rate(usage.all.knee())), percent(usage.all.hit_rate(usage.pairs)));
  for (const double target : kReach)
    if (const auto slots = usage.all.slots_for(target))
      text += fmt::format(
          "{:>4.0f} % needs {} slots{}\n", 100 * target, *slots,
          report.model ? fmt::format(", {:.2f} GiB", gib(pool_bytes(report, *slots).get<std::uint64_t>()))
                       : "");
  if (!usage.stability.empty()) {
    text += "of the hottest tenth, the next session shares:";
    for (const double share : usage.stability) text += " " + percent(share);
    text += "\n";
  }
}

void replay_text(const std::vector<Replay>& replays, std::string& text) {
  if (replays.empty()) return;
  text += fmt::format("\n{:<28} {:>8} {:>9} {:>11} {:>10} {:>7} {:>7}\n", "policy (after 15 % warm-up)",
                      "slots", "hits", "promotions", "evictions", "layers", "cold");
  for (const Replay& replay : replays)
    text += fmt::format("{:<28} {:>8} {:>9} {:>11} {:>10} {:>7} {:>7}\n", printable(replay.policy),
                        replay.slots, percent(replay.hit_rate()), replay.promotions, replay.evictions,
                        replay.layers_covered, replay.cold_median);
}

void advice_text(const std::vector<ModeAdvice>& advice, std::string& text) {
  if (advice.empty()) return;
  text += "\nmode, and values for it (GiB)\n";
  for (const ModeAdvice& mode : advice) {
    text += fmt::format("  {:<15}", name(mode.mode));
    const Json variables = environment(mode);
    for (const auto& [key, value] : variables.items())
      text += fmt::format(" {}={}", key.substr(std::string_view("VLLM_MOE_W2_").size()),
                          value.get<std::string>());
    if (mode.delta) text += fmt::format("  FP4 hits {}", percent(mode.delta->hit_rate));
    if (mode.base) text += fmt::format("  2-bit hits {}", percent(mode.base->hit_rate));
    text += mode.note.empty() ? "\n" : fmt::format("\n    {}\n", mode.note);
  }
}

}  // namespace

Json to_json(const TierReport& report) {
  Json json;
  json["traces"] = report.traces;
  json["world"] = report.world;
  json["model"] = report.model ? Json(report.model->source) : Json(nullptr);
  if (report.usage) add_usage(report, *report.usage, json);
  if (report.history) json["pool"] = history_json(*report.history);
  json["policies"] = Json::array();
  for (const Replay& replay : report.replays) json["policies"].push_back(replay_json(report, replay));
  json["modes"] = Json::array();
  for (const ModeAdvice& advice : report.advice)
    json["modes"].push_back({{"mode", name(advice.mode)},
                             {"planes_bytes", advice.planes},
                             {"delta", pool_json(advice.delta)},
                             {"base_cache", pool_json(advice.base)},
                             {"environment", environment(advice)},
                             {"note", advice.note}});
  json["heat_files"] = report.heat;
  return json;
}

std::string to_text(const TierReport& report) {
  std::string text;
  if (report.usage) curve_text(report, *report.usage, text);
  if (report.history) {
    const Json json = history_json(*report.history);
    text += fmt::format(
        "{} snapshots of a pool of {} slots: {} full, {} pairs held at some time, {} new between two "
        "snapshots, {:.2f} promotions a tick\n",
        report.history->snapshots, report.history->slots, percent(report.history->occupancy),
        report.history->held.size(), percent(report.history->churn),
        json["promotions_per_tick"].get<double>());
  }
  replay_text(report.replays, text);
  advice_text(report.advice, text);
  for (const std::string& path : report.heat) text += fmt::format("heat written: {}\n", printable(path));
  return text;
}

}  // namespace planesmith
