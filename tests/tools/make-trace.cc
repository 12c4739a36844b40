// make-trace: routing captures as the engine writes them, with Zipfian popularity, drift, sessions and skew
// by layer. For tests and demonstrations; the same arguments give the same bytes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/file.h"
#include "base/paths.h"
#include "common/program.h"
#include "synthetic/npy.h"

using namespace planesmith;

namespace {

struct Flags {
  std::string out;
  std::uint64_t ticks = 2000, layers = 43, experts = 256, per_layer = 8, seed = 1, sessions = 1;
  double zipf = 1.0, drift = 0.001, skew = 0.5;
  synthetic::NpyForm form;
  bool shuffled = false;
};

// SplitMix64: small, and the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_;
};

// A layer's experts by popularity; each tick draws some and now and then two swap their ranks.
class Layer {
 public:
  Layer(const Flags& flags, std::uint64_t number, Random& random)
      : order_(flags.experts), sums_(flags.experts) {
    std::iota(order_.begin(), order_.end(), 0);
    for (std::size_t i = order_.size(); i > 1; --i) std::swap(order_[i - 1], order_[random.below(i)]);
    const double place =
        flags.layers < 2 ? 0 : static_cast<double>(number) / static_cast<double>(flags.layers - 1) - 0.5;
    double sum = 0;
    for (std::size_t i = 0; i < sums_.size(); ++i)
      sums_[i] = sum += std::pow(static_cast<double>(i + 1), -flags.zipf * (1 + flags.skew * place));
  }
  std::uint32_t draw(Random& random) const {
    const double at = random.unit() * sums_.back();
    return order_[static_cast<std::size_t>(std::upper_bound(sums_.begin(), sums_.end() - 1, at) -
                                           sums_.begin())];
  }
  void drift(Random& random) {
    std::swap(order_[random.below(order_.size())], order_[random.below(order_.size())]);
  }

 private:
  std::vector<std::uint32_t> order_;
  std::vector<double> sums_;
};

std::vector<synthetic::TraceRow> session(const Flags& flags, std::vector<Layer>& layers, Random& random) {
  std::vector<synthetic::TraceRow> rows;
  std::vector<std::uint32_t> chosen;
  for (std::uint64_t tick = 1; tick <= flags.ticks; ++tick)
    for (std::size_t l = 0; l < layers.size(); ++l) {
      if (random.unit() < flags.drift) layers[l].drift(random);
      chosen.clear();
      // Popular experts are drawn repeatedly, so the number of draws is bounded; fewer experts may result.
      for (std::uint64_t draws = 0; chosen.size() < flags.per_layer && draws < 16 * flags.per_layer;
           ++draws) {
        const std::uint32_t expert = layers[l].draw(random);
        if (std::find(chosen.begin(), chosen.end(), expert) == chosen.end()) chosen.push_back(expert);
      }
      std::sort(chosen.begin(), chosen.end());
      for (const std::uint32_t expert : chosen)
        rows.push_back({static_cast<std::int64_t>(tick), static_cast<std::int64_t>(l), expert});
    }
  if (flags.shuffled)
    for (std::size_t i = rows.size(); i > 1; --i) std::swap(rows[i - 1], rows[random.below(i)]);
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Makes routing captures for size-tiers: OUT, or OUT.0, OUT.1, ... for several sessions.",
               "make-trace");
  CommonFlags common;
  Flags flags;
  app.add_option("OUT", flags.out, "File to write (.npy)")->required();
  app.add_option("--ticks", flags.ticks, "Ticks of a session")->capture_default_str();
  app.add_option("--layers", flags.layers, "Layers")->check(CLI::Range(1, 1 << 14))->capture_default_str();
  app.add_option("--experts", flags.experts, "Experts of a layer")
      ->check(CLI::Range(1, 1 << 14))
      ->capture_default_str();
  app.add_option("--per-layer", flags.per_layer, "Experts that a tick uses in each layer, at most")
      ->capture_default_str();
  app.add_option("--sessions", flags.sessions, "Sessions, a file each")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--zipf", flags.zipf, "Exponent of the popularity of experts")->capture_default_str();
  app.add_option("--skew", flags.skew, "How much the exponent grows from the first layer to the last")
      ->capture_default_str();
  app.add_option("--drift", flags.drift, "Chance that a layer swaps two experts' popularity in a tick")
      ->capture_default_str();
  app.add_option("--seed", flags.seed, "Seed")->capture_default_str();
  app.add_flag("--fortran", flags.form.fortran, "Column-major order");
  app.add_flag("--int64", flags.form.wide, "Eight bytes for each number");
  app.add_flag("--shuffle", flags.shuffled, "Rows in no order");
  add_common_flags(app, common);
  return run_program(app, argc, argv, common, [&](Context& context) {
    Random random(flags.seed);
    std::vector<Layer> layers;
    for (std::uint64_t l = 0; l < flags.layers; ++l) layers.emplace_back(flags, l, random);
    for (std::uint64_t s = 0; s < flags.sessions; ++s)
      write_atomically(context.os, flags.sessions == 1 ? flags.out : fmt::format("{}.{}", flags.out, s),
                       synthetic::npy_bytes(session(flags, layers, random), flags.form));
    return 0;
  });
}
