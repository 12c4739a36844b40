// Traces, curves and replays against the simplest way to compute each.
#include <doctest/doctest.h>

#include <algorithm>
#include <list>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "base/size.h"
#include "scratch.h"
#include "synthetic/npy.h"
#include "tiers/advice.h"
#include "tiers/curve.h"
#include "tiers/policy.h"
#include "tiers/snapshot.h"
#include "tiers/trace.h"

using namespace planesmith;
using namespace planesmith::synthetic;

namespace {

std::vector<TraceRow> random_rows(std::uint32_t seed, std::int64_t ticks, std::int64_t layers,
                                  std::int64_t experts) {
  std::mt19937 random(seed);
  std::vector<TraceRow> rows;
  for (std::int64_t tick = 3; tick < 3 + 2 * ticks; tick += 1 + random() % 3)
    for (std::int64_t layer = 0; layer < layers; ++layer)
      for (int i = 0; i < 3; ++i) {
        // The square of a random number prefers small experts; some rows repeat.
        const std::int64_t a = random() % experts, b = random() % experts;
        rows.push_back({tick, layer, std::min(a, b)});
      }
  return rows;
}

// Ticks in order, each pair once.
std::map<std::int64_t, std::set<std::pair<std::int64_t, std::int64_t>>> frames(
    const std::vector<TraceRow>& rows) {
  std::map<std::int64_t, std::set<std::pair<std::int64_t, std::int64_t>>> out;
  for (const TraceRow& row : rows) out[row[0]].insert({row[1], row[2]});
  return out;
}

std::uint64_t lru_hits(const std::vector<TraceRow>& rows, std::size_t slots) {
  std::list<std::pair<std::int64_t, std::int64_t>> pool;  // most recent first
  std::uint64_t hits = 0;
  for (const auto& [tick, pairs] : frames(rows))
    for (const auto& pair : pairs) {
      const auto at = std::find(pool.begin(), pool.end(), pair);
      if (at != pool.end()) {
        ++hits;
        pool.erase(at);
      }
      pool.push_front(pair);
      if (pool.size() > slots) pool.pop_back();
    }
  return hits;
}

Usage usage_of(const std::vector<std::string>& paths, Context context = {}) {
  const Trace trace(context, paths, 0, 0);
  return measure_usage(context, trace);
}

std::string refusal(const std::string& bytes) {
  const Scratch scratch;
  put_file(scratch / "t.npy", bytes);
  try {
    usage_of({scratch / "t.npy"});
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the curve equals a simulation of LRU at every size") {
  for (std::uint32_t seed = 1; seed <= 6; ++seed) {
    CAPTURE(seed);
    const std::vector<TraceRow> rows = random_rows(seed, 40 * seed, seed, 5 + 7 * seed);
    const Scratch scratch;
    put_file(scratch / "t.npy", npy_bytes(rows));
    const Usage usage = usage_of({scratch / "t.npy"});
    std::uint64_t accesses = 0;
    for (const auto& [tick, pairs] : frames(rows)) accesses += pairs.size();
    CHECK(usage.all.accesses == accesses);
    for (std::uint64_t slots = 0; slots <= usage.pairs + 1; ++slots) {
      CAPTURE(slots);
      CHECK(usage.all.hits(slots) == lru_hits(rows, slots));
    }
    std::uint64_t by_layer = 0, by_window = 0;
    for (const Usage::Layer& layer : usage.by_layer) by_layer += layer.distances.most_hits();
    for (const Usage::Window& window : usage.windows) by_window += window.distances.most_hits();
    CHECK(by_layer == usage.all.most_hits());
    CHECK(by_window == usage.all.most_hits());
  }
}

TEST_CASE("order of rows, width of numbers, order of the array and memory make no difference") {
  std::vector<TraceRow> rows = random_rows(9, 300, 4, 30);
  const Scratch scratch;
  put_file(scratch / "plain.npy", npy_bytes(rows));
  const Usage plain = usage_of({scratch / "plain.npy"});
  std::shuffle(rows.begin(), rows.end(), std::mt19937(3));
  for (const bool fortran : {false, true})
    for (const bool wide : {false, true})
      for (const std::uint64_t memory : {2 * kGiB, 100 * kKiB}) {
        put_file(scratch / "t.npy", npy_bytes(rows, {fortran, wide}));
        Context context;
        context.memory = memory;
        const Usage usage = usage_of({scratch / "t.npy"}, context);
        CHECK(usage.all.at == plain.all.at);
        CHECK(usage.counts == plain.counts);
        CHECK(usage.ticks == plain.ticks);
      }
}

TEST_CASE("sessions follow one another in a warm pool") {
  const std::vector<TraceRow> first = {{1, 0, 0}, {2, 0, 1}}, second = {{1, 0, 1}, {2, 0, 0}};
  const Scratch scratch;
  put_file(scratch / "a.npy", npy_bytes(first));
  put_file(scratch / "b.npy", npy_bytes(second));
  const Usage usage = usage_of({scratch / "a.npy", scratch / "b.npy"});
  CHECK(usage.all.accesses == 4);
  CHECK(usage.pairs == 2);
  CHECK(usage.all.hits(1) == 1);
  CHECK(usage.all.hits(2) == 2);
  CHECK(usage.stability == std::vector<double>{1.0});
  CHECK(usage.windows.size() >= 2);
}

TEST_CASE("no policy beats Belady, and every pool of all pairs is as good as another") {
  const std::vector<TraceRow> rows = random_rows(5, 400, 5, 24);
  const Scratch scratch;
  put_file(scratch / "t.npy", npy_bytes(rows));
  const Context context;
  const Trace trace(context, {scratch / "t.npy"}, 0, 0);
  const std::uint64_t ticks = frames(rows).size();
  std::vector<Policy> policies;
  for (const char* name : {"belady", "engine", "engine:hyst=1.25", "engine:cap=4", "sorted/lru", "freq/lru",
                           "round-robin/lfu", "freq/lfu:promote=2", "sorted/aged-lfu:threshold=3", "need"})
    policies.push_back(parse_policy(name));
  const std::vector<std::uint64_t> slots = {1, 5, 20, 60, trace.numbers()};
  const std::vector<Replay> replays = replay(context, trace, policies, slots, ticks);
  REQUIRE(replays.size() == policies.size() * slots.size());
  for (std::size_t i = 0; i < replays.size(); ++i) {
    CAPTURE(replays[i].policy);
    CAPTURE(replays[i].slots);
    CHECK(replays[i].accesses == replays[0].accesses);
    CHECK(replays[i].hits <= replays[i % slots.size()].hits);
    CHECK(replays[i].held <= replays[i].slots);
    if (replays[i].policy == "need") CHECK(replays[i].hits == 0);
  }
}

TEST_CASE("what is advised fits the memory that is named, with room for dense weights and KV cache") {
  const format::Geometry flash{43, 256, 4096, 2048};
  Distances curve;
  for (std::uint32_t distance = 0; distance < 43 * 256; ++distance) curve.add(distance);
  const std::uint64_t gpu = 96 * kGiB;
  for (const ModeAdvice& advice : advise(flash, 43, 1, curve, {gpu, 64 * kGiB})) {
    CAPTURE(name(advice.mode));
    const bool host = format::switches(advice.mode).host;
    double gib = host ? 0 : static_cast<double>(advice.planes) / static_cast<double>(kGiB);
    if (advice.delta) gib += advice.delta->gib;
    if (advice.base) gib += advice.base->gib;
    CHECK(gib <= 0.85 * 96 + 1e-9);
    if (!host && advice.delta) CHECK(gib > 0.85 * 96 - 0.1);  // and uses it
    CHECK(advice.base_ram_gb.value_or(64) <= 64);
  }
  for (const ModeAdvice& advice : advise(flash, 43, 1, curve, {80 * kGiB, {}}))
    CHECK(format::switches(advice.mode).host == (advice.note.find("does not fit") == std::string::npos));
}

TEST_CASE("policies that are not known are refused") {
  for (const char* text :
       {"", "lru", "sorted", "sorted/", "/lru", "engine:", "engine:promote", "engine:promote=x",
        "engine:promote=-1", "engine:speed=2", "Belady", "freq/lru:cap=1:"}) {
    CAPTURE(text);
    if (std::string_view(text) == "engine:" || std::string_view(text) == "freq/lru:cap=1:") {
      CHECK_NOTHROW(parse_policy(text));
      continue;
    }
    CHECK_THROWS_AS(parse_policy(text), Error);
  }
}

TEST_CASE("files that are not captures are refused") {
  const std::string good = npy_bytes({{1, 0, 0}, {2, 1, 3}});
  CHECK(refusal(good) == "accepted");
  CHECK(refusal("").find("is not a NumPy array") != std::string::npos);
  CHECK(refusal("PK\x03\x04 something").find("is not a NumPy array") != std::string::npos);
  CHECK(refusal(good.substr(0, 40)).find("ends inside its header") != std::string::npos);
  CHECK(refusal(good.substr(0, good.size() - 1)).find("rows of 3 x 4 bytes were expected") !=
        std::string::npos);
  CHECK(refusal(good + "x").find("rows of 3 x 4 bytes were expected") != std::string::npos);
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string bytes = good;
    bytes.replace(bytes.find(from), from.size(), to);
    return refusal(bytes);
  };
  CHECK(with("<i4", "<f4").find("elements of type '<f4'") != std::string::npos);
  CHECK(with("<i4", ">i4").find("elements of type '>i4'") != std::string::npos);
  CHECK(with("(2, 3)", "(3, 2)").find("has shape (3, 2)") != std::string::npos);
  CHECK(with("(2, 3)", "(9, 3)").find("9 rows of 3 x 4 bytes were expected") != std::string::npos);
  CHECK(refusal(npy_bytes({{1, -1, 0}})).find("row 0 is [1, -1, 0]") != std::string::npos);
  CHECK(refusal(npy_bytes({{1, 0, 0}, {-2, 0, 0}})).find("row 1 is [-2, 0, 0]") != std::string::npos);
  CHECK(refusal(npy_bytes({{1, 0, 1 << 20}})).find("row 0 is") != std::string::npos);
}

TEST_CASE("an empty capture has no accesses") {
  const Scratch scratch;
  put_file(scratch / "t.npy", npy_bytes({}));
  const Usage usage = usage_of({scratch / "t.npy"});
  CHECK(usage.all.accesses == 0);
  CHECK(usage.all.hit_rate(10) == 0);
  CHECK(usage.all.knee() == 0);
}

TEST_CASE("dumps of the pool: one object, one a line, and what is wrong with others") {
  const Scratch scratch;
  const Context context;
  const std::string a =
      R"({"tick": 10, "n_slots": 4, "cached": 2, "promoted_total": 5, "evicted_total": 1, "fp4_by_layer": {"0": [3], "2": [1]}})";
  const std::string b =
      R"({"tick": 20, "n_slots": 4, "cached": 3, "promoted_total": 9, "evicted_total": 3, "fp4_by_layer": {"0": [3, 4], "5": [7]}, "store": {}})";
  put_file(scratch / "one.json", a);
  put_file(scratch / "lines.json", a + "\n" + b + "\n\n");
  CHECK(is_snapshot_file(context.os, scratch / "one.json"));
  const PoolHistory one = read_snapshots(context, {scratch / "one.json"});
  CHECK(one.snapshots == 1);
  CHECK(one.held.size() == 2);
  const PoolHistory two = read_snapshots(context, {scratch / "lines.json"});
  CHECK(two.snapshots == 2);
  CHECK(two.ticks() == 10);
  CHECK(two.promotions == 4);
  CHECK(two.evictions == 2);
  CHECK(two.layers_covered == 2);
  CHECK(two.churn == doctest::Approx(2.0 / 3));
  REQUIRE(two.held.size() == 4);
  CHECK(two.held[0].layer == 0);
  CHECK(two.held[0].expert == 3);
  for (
      const char* bad :
      {"{", "{}", R"({"tick": -1})",
       R"({"tick": 1, "n_slots": 4, "cached": 0, "promoted_total": 0, "evicted_total": 0, "fp4_by_layer": {"x": []}})",
       R"({"tick": 1, "n_slots": 4, "cached": 0, "promoted_total": 0, "evicted_total": 0, "fp4_by_layer": {"1": [-1]}})"}) {
    CAPTURE(bad);
    put_file(scratch / "bad.json", bad);
    CHECK_THROWS_AS(read_snapshots(context, {scratch / "bad.json"}), Error);
  }
}

TEST_CASE("every name that is told is a policy") {
  const std::vector<std::string> names = policy_names();
  CHECK(names.size() == 12);
  for (const std::string& name : names) CHECK(parse_policy(name).name == name);
}
