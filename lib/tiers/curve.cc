#include "tiers/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "tiers/stack_distance.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kWindows = 32;

// Uses of the hottest tenth, at least one.
std::uint64_t hottest_tenth(std::vector<std::uint64_t>& uses) {
  const std::size_t tenth = (uses.size() + 9) / 10;
  std::partial_sort(uses.begin(), uses.begin() + static_cast<std::ptrdiff_t>(tenth), uses.end(),
                    std::greater<>());
  return std::accumulate(uses.begin(), uses.begin() + static_cast<std::ptrdiff_t>(tenth), std::uint64_t{0});
}

double gini(std::vector<std::uint64_t> uses) {
  std::sort(uses.begin(), uses.end());
  double sum = 0, weighted = 0;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    sum += static_cast<double>(uses[i]);
    weighted += static_cast<double>(i + 1) * static_cast<double>(uses[i]);
  }
  const auto n = static_cast<double>(uses.size());
  return sum == 0 ? 0 : 2 * weighted / (n * sum) - (n + 1) / n;
}

std::vector<Pair> hottest_of(const std::vector<std::uint64_t>& counts) {
  std::vector<Pair> pairs;
  for (Pair pair = 0; pair < counts.size(); ++pair)
    if (counts[pair] != 0) pairs.push_back(pair);
  std::stable_sort(pairs.begin(), pairs.end(), [&](Pair a, Pair b) { return counts[a] > counts[b]; });
  return pairs;
}

void check_memory(const Context& context, const Trace& trace) {
  const std::uint64_t distances = (1 + kWindows + trace.layers()) * trace.numbers() * sizeof(std::uint64_t);
  const std::uint64_t counts = trace.sessions() * trace.numbers() * sizeof(std::uint64_t);
  const std::uint64_t need = StackDistance::bytes(trace.numbers()) + distances + counts;
  if (need > context.memory)
    throw Error(
        ErrorCode::usage, "",
        fmt::format("--memory {} is too small for {} layers of {} experts; the smallest that works is {}",
                    context.memory, trace.layers(), trace.experts(), need));
}

// Which pairs the window before used, and this one.
class WindowSets {
 public:
  explicit WindowSets(std::uint64_t numbers) : now_(numbers), before_(numbers) {}
  void use(Pair pair, Usage::Window& window) {
    if (now_[pair]) return;
    now_[pair] = true;
    ++window.pairs;
    window.fresh += !before_[pair];
  }
  void next() {
    before_.swap(now_);
    std::fill(now_.begin(), now_.end(), false);
  }

 private:
  std::vector<bool> now_, before_;
};

void describe_layers(Usage& usage) {
  for (std::uint64_t l = 0; l < usage.layers; ++l) {
    Usage::Layer& layer = usage.by_layer[l];
    layer.layer = l;
    std::vector<std::uint64_t> uses(usage.experts);
    for (std::uint64_t e = 0; e < usage.experts; ++e) {
      uses[e] = usage.count(static_cast<Pair>(l * usage.experts + e));
      layer.pairs += uses[e] != 0;
    }
    layer.gini = gini(uses);
    if (layer.distances.accesses != 0)
      layer.top10 = static_cast<double>(hottest_tenth(uses)) / static_cast<double>(layer.distances.accesses);
  }
  std::erase_if(usage.by_layer, [](const Usage::Layer& layer) { return layer.distances.accesses == 0; });
}

double shared_tenth(const std::vector<std::uint64_t>& a, const std::vector<std::uint64_t>& b) {
  std::vector<Pair> first = hottest_of(a), second = hottest_of(b);
  const std::size_t tenth = (std::min(first.size(), second.size()) + 9) / 10;
  if (tenth == 0) return 0;
  first.resize(tenth);
  second.resize(tenth);
  std::sort(first.begin(), first.end());
  std::sort(second.begin(), second.end());
  std::vector<Pair> both;
  std::set_intersection(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(both));
  return static_cast<double>(both.size()) / static_cast<double>(tenth);
}

}  // namespace

void Distances::add(std::uint32_t distance) {
  ++accesses;
  if (distance == StackDistance::kFirst) return;
  if (at.size() <= distance) at.resize(distance + 1);
  ++at[distance];
}

std::uint64_t Distances::hits(std::uint64_t slots) const {
  const auto end = at.begin() + static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(slots, at.size()));
  return std::accumulate(at.begin(), end, std::uint64_t{0});
}

double Distances::hit_rate(std::uint64_t slots) const {
  return accesses == 0 ? 0 : static_cast<double>(hits(slots)) / static_cast<double>(accesses);
}

std::optional<std::uint64_t> Distances::slots_for(double hit_rate) const {
  std::uint64_t hits = 0;
  for (std::uint64_t slots = 0; slots < at.size(); ++slots) {
    hits += at[slots];
    if (static_cast<double>(hits) >= hit_rate * static_cast<double>(accesses)) return slots + 1;
  }
  return std::nullopt;
}

std::uint64_t Distances::knee() const {
  const double all = static_cast<double>(most_hits()), sizes = static_cast<double>(at.size());
  std::uint64_t hits = 0, best = 0;
  double most = 0;
  for (std::uint64_t slots = 1; slots <= at.size(); ++slots) {
    hits += at[slots - 1];
    const double above = static_cast<double>(hits) / all - static_cast<double>(slots) / sizes;
    if (best == 0 || above > most) {
      most = above;
      best = slots;
    }
  }
  return best;
}

std::uint64_t Usage::count(Pair pair) const {
  std::uint64_t sum = 0;
  for (const std::vector<std::uint64_t>& session : counts) sum += session[pair];
  return sum;
}

std::vector<Pair> Usage::hottest() const {
  std::vector<std::uint64_t> sums(layers * experts);
  for (Pair pair = 0; pair < sums.size(); ++pair) sums[pair] = count(pair);
  return hottest_of(sums);
}

Usage measure_usage(const Context& context, const Trace& trace) {
  check_memory(context, trace);
  Usage usage;
  usage.layers = trace.layers();
  usage.experts = trace.experts();
  usage.by_layer.resize(usage.layers);
  usage.counts.assign(trace.sessions(), std::vector<std::uint64_t>(trace.numbers()));
  StackDistance stack(trace.numbers());
  WindowSets sets(trace.numbers());
  const std::uint64_t window_rows = std::max<std::uint64_t>(trace.rows() / kWindows, 1);
  for (std::size_t session = 0; session < trace.sessions(); ++session) {
    bool starts = true;  // no window spans two sessions
    trace.for_each_tick(context, session, [&](std::uint64_t tick, std::span<const Pair> pairs) {
      if (starts || usage.windows.back().distances.accesses >= window_rows) {
        usage.windows.push_back({session, tick, tick, 0, 0, {}});
        sets.next();
        starts = false;
      }
      Usage::Window& window = usage.windows.back();
      window.last_tick = tick;
      ++usage.ticks;
      for (const Pair pair : pairs) {
        const std::uint32_t distance = stack.use(pair);
        usage.pairs += distance == StackDistance::kFirst;
        usage.all.add(distance);
        usage.by_layer[pair / usage.experts].distances.add(distance);
        window.distances.add(distance);
        sets.use(pair, window);
        ++usage.counts[session][pair];
      }
    });
  }
  describe_layers(usage);
  for (std::size_t session = 1; session < trace.sessions(); ++session)
    usage.stability.push_back(shared_tenth(usage.counts[session - 1], usage.counts[session]));
  return usage;
}

}  // namespace planesmith
