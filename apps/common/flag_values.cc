#include "common/flag_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "common/program.h"
#include "format/engine.h"
#include "manifest/profile.h"
#include "quant/kernels.h"

namespace planesmith {

void add_isa_flag(CLI::App& app, std::string& isa) {
  const std::vector<std::string> names(std::begin(kIsas), std::end(kIsas));
  app.add_option("--isa", isa,
                 fmt::format("Vector instructions of the processor to use: {}", fmt::join(names, ", ")))
      ->check(CLI::IsMember(names))
      ->capture_default_str();
}

void add_backend_flags(CLI::App& app, BackendFlags& flags) {
  app.add_option("--backend", flags.backend,
                 "What converts: auto (the CPU where it has vector kernels, else a GPU), cpu, cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  app.add_option("--gpus", flags.gpus, "GPUs to use, like 0,1 (default: all)");
  add_isa_flag(app, flags.isa);
}

BackendChoice backend_of(const BackendFlags& flags) {
  BackendChoice choice{flags.backend, flags.isa, {}};
  if (flags.gpus) choice.gpus = parse_number_list(*flags.gpus, "--gpus");
  return choice;
}

namespace {

template <typename Values>
std::string type_of(const Values& values) {
  std::vector<std::string_view> words;
  for (const auto value : values) words.push_back(name(value));
  return fmt::format("TEXT:{{{}}}", fmt::join(words, ","));
}

}  // namespace

std::string tiers_type() {
  return type_of(format::kTiers);
}
std::string modes_type() {
  return type_of(format::kModes);
}

CLI::Option* add_profile_flag(CLI::App& app, std::string& profile, const std::string& about) {
  // Directories are looked at only where the type is asked for.
  return app.add_option("--profile", profile, about)->type_name_fn([] {
    Os os;
    std::vector<std::string> words = profile_names(os);
    words.push_back("...");
    return fmt::format("NAME|FILE:{{{}}}", fmt::join(words, ","));
  });
}

CLI::Option* add_rank_flag(CLI::App& app, std::string& rank, const std::string& about) {
  return app.add_option("--rank", rank, about)->type_name("TEXT:{all,...}")->capture_default_str();
}

std::optional<std::uint64_t> parse_rank(const std::string& text) {
  if (text == "all") return std::nullopt;
  std::uint64_t rank = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, rank);
  if (error != std::errc() || next != end)
    throw Error(ErrorCode::usage, "", fmt::format("--rank: '{}' is neither a rank nor 'all'", text));
  return rank;
}

std::vector<format::Tier> parse_tiers(const std::string& text) {
  std::vector<format::Tier> tiers;
  for (std::size_t at = 0;;) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const format::Tier tier = format::parse_tier(text.substr(at, comma - at));
    if (std::find(tiers.begin(), tiers.end(), tier) == tiers.end()) tiers.push_back(tier);
    if (comma == text.size()) return tiers;
    at = comma + 1;
  }
}

}  // namespace planesmith
