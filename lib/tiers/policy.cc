#include "tiers/policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <memory>
#include <set>
#include <tuple>

#include "base/error.h"

namespace planesmith {
namespace {

constexpr double kWarmUp = 0.15;
// A pair used this tick or the one before may still be read by a step in flight.
constexpr std::uint64_t kColdTicks = 2;
constexpr std::uint64_t kDecayTicks = 1000;
constexpr double kDecay = 0.5;

Error bad_policy(std::string_view text) {
  return Error(
      ErrorCode::usage, "",
      fmt::format(
          "--policy: '{}' is not engine, need, belady or ORDER/VICTIM (sorted, freq, round-robin / lru, "
          "lfu, aged-lfu), with promote=N, threshold=N, cap=N or hyst=X after colons",
          text));
}

constexpr std::pair<std::string_view, Order> kOrders[] = {
    {"sorted", Order::sorted}, {"freq", Order::freq}, {"round-robin", Order::round_robin}};
constexpr std::pair<std::string_view, Victim> kVictims[] = {
    {"lru", Victim::lru}, {"lfu", Victim::lfu}, {"aged-lfu", Victim::aged_lfu}};

template <typename Value, std::size_t n>
Value named(const std::pair<std::string_view, Value> (&table)[n], std::string_view name,
            std::string_view whole) {
  for (const auto& [known, value] : table)
    if (known == name) return value;
  throw bad_policy(whole);
}

template <typename Number>
Number number_of(std::string_view digits, std::string_view whole) {
  Number value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || !(value >= 0)) throw bad_policy(whole);
  return value;
}

// One policy at one size, fed tick by tick.
class Manager {
 public:
  Manager(const Policy& policy, const Trace& trace, std::uint64_t slots)
      : policy_(policy),
        experts_(trace.experts()),
        slots_(slots),
        uses_(trace.numbers()),
        last_use_(trace.numbers(), 0),
        in_pool_(trace.numbers()),
        held_by_layer_(trace.layers()) {
    out_.policy = policy.name;
    out_.slots = slots;
  }

  void tick(std::uint64_t now, std::span<const Pair> pairs, bool counts) {
    counts_ = counts;
    now_ = now;
    if (counts) {
      ++out_.ticks;
      out_.accesses += pairs.size();
      for (const Pair pair : pairs) out_.hits += in_pool_[pair];
    }
    candidates_.clear();
    for (const Pair pair : pairs) {
      if (in_pool_[pair]) pool_.erase(rank(pair));
      uses_[pair] += 1;
      last_use_[pair] = now;
      if (in_pool_[pair])
        pool_.insert(rank(pair));
      else if (policy_.order != Order::none && uses_[pair] >= static_cast<double>(policy_.threshold))
        candidates_.push_back(pair);
    }
    put_in_order();
    promote();
    if (++ticks_ % kDecayTicks == 0 && policy_.victim == Victim::aged_lfu) decay();
  }

  Replay finish() {
    out_.held = pool_.size();
    for (const std::uint64_t held : held_by_layer_) out_.layers_covered += held != 0;
    std::sort(cold_.begin(), cold_.end());
    if (!cold_.empty()) {
      out_.cold_median = cold_[(cold_.size() - 1) / 2];
      out_.cold_p90 = cold_[(cold_.size() - 1) * 9 / 10];
    }
    return out_;
  }

 private:
  // Least valuable first; equal pairs are evicted in ascending order.
  using Rank = std::tuple<double, std::uint64_t, Pair>;
  Rank rank(Pair pair) const {
    return {policy_.victim == Victim::lru ? 0 : uses_[pair], last_use_[pair], pair};
  }

  // Candidates are ascending.
  void put_in_order() {
    if (policy_.order == Order::freq)
      std::stable_sort(candidates_.begin(), candidates_.end(),
                       [&](Pair a, Pair b) { return uses_[a] > uses_[b]; });
    if (policy_.order != Order::round_robin) return;
    // Position among the layer's candidates, then the pair.
    std::vector<std::pair<std::uint64_t, Pair>> turns;
    std::uint64_t place = 0;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      place = i != 0 && candidates_[i] / experts_ == candidates_[i - 1] / experts_ ? place + 1 : 0;
      turns.emplace_back(place, candidates_[i]);
    }
    std::sort(turns.begin(), turns.end());
    for (std::size_t i = 0; i < turns.size(); ++i) candidates_[i] = turns[i].second;
  }

  void promote() {
    std::uint64_t promoted = 0;
    for (const Pair pair : candidates_) {
      if (promoted == policy_.promote) break;
      std::uint64_t& held = held_by_layer_[pair / experts_];
      if (policy_.layer_cap && held >= *policy_.layer_cap) continue;
      if (pool_.size() >= slots_) {
        const auto victim = find_victim();
        if (victim == pool_.end()) break;
        const Pair leaves = std::get<Pair>(*victim);
        // Later candidates have fewer uses only under Order::freq, so each is tested.
        if (policy_.hysteresis > 1 && uses_[pair] <= policy_.hysteresis * uses_[leaves] + 4) continue;
        evict(victim);
      }
      in_pool_[pair] = true;
      pool_.insert(rank(pair));
      ++held;
      ++promoted;
      out_.promotions += counts_;
    }
  }

  std::set<Rank>::iterator find_victim() {
    for (auto at = pool_.begin(); at != pool_.end(); ++at) {
      if (now_ - std::get<1>(*at) >= kColdTicks) return at;
      if (policy_.victim == Victim::lru) break;  // all later ones were used more recently
    }
    return pool_.end();
  }

  void evict(std::set<Rank>::iterator victim) {
    const Pair pair = std::get<Pair>(*victim);
    if (counts_) {
      ++out_.evictions;
      cold_.push_back(now_ - last_use_[pair]);
    }
    in_pool_[pair] = false;
    --held_by_layer_[pair / experts_];
    pool_.erase(victim);
  }

  void decay() {
    for (double& uses : uses_) uses *= kDecay;
    std::set<Rank> faded;
    for (const Rank& each : pool_) faded.insert(faded.end(), rank(std::get<Pair>(each)));
    pool_.swap(faded);
  }

  const Policy& policy_;
  const std::uint64_t experts_, slots_;
  std::vector<double> uses_;
  std::vector<std::uint64_t> last_use_;  // tick
  std::vector<char> in_pool_;
  std::vector<std::uint64_t> held_by_layer_;
  std::set<Rank> pool_;
  std::vector<Pair> candidates_;
  std::vector<std::uint64_t> cold_;
  std::uint64_t now_ = 0, ticks_ = 0;
  bool counts_ = false;
  Replay out_;
};

// Concatenates the ticks of all sessions: the clock of each session continues where the previous one ended,
// so that "cold for two ticks" keeps its meaning.
template <typename Take>
void for_each_tick(const Context& context, const Trace& trace, Take take) {
  std::uint64_t base = 0, last = 0;
  for (std::size_t session = 0; session < trace.sessions(); ++session) {
    base = session == 0 ? 0 : last + kColdTicks;
    trace.for_each_tick(context, session, [&](std::uint64_t tick, std::span<const Pair> pairs) {
      last = base + tick;
      take(last, pairs);
    });
  }
}

// The accesses of the whole trace, for Belady.
struct Future {
  std::vector<Pair> pairs;
  std::vector<std::uint32_t> next;  // index of the pair's next counted use; kNever: none
  std::size_t first_counted = 0;
  static constexpr std::uint32_t kNever = std::numeric_limits<std::uint32_t>::max();
};

Future look_ahead(const Context& context, const Trace& trace, std::uint64_t warm_up) {
  const std::uint64_t need = trace.rows() * (sizeof(Pair) + sizeof(std::uint32_t));
  if (need > context.memory || trace.rows() >= Future::kNever)
    throw Error(
        ErrorCode::usage, "",
        fmt::format(
            "--memory {} is too small for --policy belady over {} rows; the smallest that works is {}",
            context.memory, trace.rows(), need));
  Future future;
  future.pairs.reserve(trace.rows());
  std::uint64_t ticks = 0;
  for_each_tick(context, trace, [&](std::uint64_t, std::span<const Pair> pairs) {
    if (ticks++ == warm_up) future.first_counted = future.pairs.size();
    future.pairs.insert(future.pairs.end(), pairs.begin(), pairs.end());
  });
  if (ticks <= warm_up) future.first_counted = future.pairs.size();
  future.next.resize(future.pairs.size());
  std::vector<std::uint32_t> next(trace.numbers(), Future::kNever);
  for (std::size_t i = future.pairs.size(); i-- > 0;) {
    future.next[i] = next[future.pairs[i]];
    if (i >= future.first_counted) next[future.pairs[i]] = static_cast<std::uint32_t>(i);
  }
  return future;
}

// A missing pair replaces the pair in the pool whose next counted use is latest, if its own comes earlier. No
// policy that promotes only what a tick used gets more hits.
Replay belady(const Future& future, const Trace& trace, std::uint64_t slots) {
  Replay out;
  out.policy = "belady";
  out.slots = slots;
  std::set<std::pair<std::uint32_t, Pair>> pool;  // next use, pair
  std::vector<std::uint32_t> next(trace.numbers(), 0);
  std::vector<char> in_pool(trace.numbers());
  for (std::size_t i = 0; i < future.pairs.size(); ++i) {
    const Pair pair = future.pairs[i];
    const bool counts = i >= future.first_counted;
    out.accesses += counts;
    out.hits += counts && in_pool[pair];
    if (in_pool[pair]) {
      pool.erase({next[pair], pair});
    } else {
      if (future.next[i] == Future::kNever || slots == 0) continue;
      if (pool.size() == slots) {
        const auto last = std::prev(pool.end());
        if (last->first < future.next[i]) continue;
        in_pool[last->second] = false;
        pool.erase(last);
        out.evictions += counts;
      }
      out.promotions += counts;
    }
    in_pool[pair] = true;
    next[pair] = future.next[i];
    pool.insert({next[pair], pair});
  }
  out.held = pool.size();
  std::set<std::uint64_t> layers;
  for (const auto& [at, pair] : pool) layers.insert(pair / trace.experts());
  out.layers_covered = layers.size();
  return out;
}

}  // namespace

std::vector<std::string> policy_names() {
  std::vector<std::string> names = {"engine", "need", "belady"};
  for (const auto& [order, o] : kOrders)
    for (const auto& [victim, v] : kVictims) names.push_back(fmt::format("{}/{}", order, victim));
  return names;
}

Policy parse_policy(std::string_view text) {
  Policy policy;
  policy.name = text;
  std::string_view rest = text;
  const auto next_part = [&] {
    const std::size_t colon = std::min(rest.find(':'), rest.size());
    const std::string_view part = rest.substr(0, colon);
    rest.remove_prefix(std::min(colon + 1, rest.size()));
    return part;
  };
  const std::string_view name = next_part();
  if (name == "belady") {
    policy.belady = true;
  } else if (name == "need") {
    policy.order = Order::none;
  } else if (name != "engine") {
    const std::size_t slash = name.find('/');
    if (slash == std::string_view::npos) throw bad_policy(text);
    policy.order = named(kOrders, name.substr(0, slash), text);
    policy.victim = named(kVictims, name.substr(slash + 1), text);
  }
  while (!rest.empty()) {
    const std::string_view part = next_part();
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view key = part.substr(0, equals),
                           value = part.substr(std::min(equals + 1, part.size()));
    if (key == "promote")
      policy.promote = number_of<std::uint64_t>(value, text);
    else if (key == "threshold")
      policy.threshold = number_of<std::uint64_t>(value, text);
    else if (key == "cap")
      policy.layer_cap = number_of<std::uint64_t>(value, text);
    else if (key == "hyst")
      policy.hysteresis = number_of<double>(value, text);
    else
      throw bad_policy(text);
  }
  return policy;
}

std::vector<Replay> replay(const Context& context, const Trace& trace, const std::vector<Policy>& policies,
                           const std::vector<std::uint64_t>& slots, std::uint64_t ticks) {
  const auto warm_up = static_cast<std::uint64_t>(std::floor(static_cast<double>(ticks) * kWarmUp));
  std::vector<std::unique_ptr<Manager>> managers;
  bool future_needed = false;
  for (const Policy& policy : policies)
    for (const std::uint64_t size : slots) {
      managers.push_back(policy.belady ? nullptr : std::make_unique<Manager>(policy, trace, size));
      future_needed |= policy.belady;
    }
  std::uint64_t tick = 0;
  if (std::any_of(managers.begin(), managers.end(), [](const auto& manager) { return manager != nullptr; }))
    for_each_tick(context, trace, [&](std::uint64_t now, std::span<const Pair> pairs) {
      const bool counts = tick++ >= warm_up;
      for (const std::unique_ptr<Manager>& manager : managers)
        if (manager) manager->tick(now, pairs, counts);
    });
  const Future future = future_needed ? look_ahead(context, trace, warm_up) : Future{};
  std::vector<Replay> out;
  for (std::size_t i = 0; i < managers.size(); ++i) {
    if (managers[i]) {
      out.push_back(managers[i]->finish());
    } else {
      out.push_back(belady(future, trace, slots[i % slots.size()]));
      out.back().ticks = ticks - warm_up;
    }
  }
  return out;
}

}  // namespace planesmith
