// Compares the checkpoint with a model's profile.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "audit/checks.h"
#include "base/error.h"

namespace planesmith {

void check_profile(const Context& context, const Inventory& inventory, const std::optional<Experts>& experts,
                   const std::optional<Profile>& profile, Findings& findings) {
  format::Geometry found;
  try {
    found = experts ? experts->geometry
                    : config_geometry(inventory.config, inventory.path(std::string(kConfigName)));
  } catch (const Error& error) {
    if (profile)
      findings.push_back({"profile.unknown-geometry", Severity::error, error.what(),
                          "it cannot be compared with the profile", "repair config.json"});
    return;
  }
  if (!profile) {
    if (const std::string note = compare_with_profiles(context.os, found); !note.empty())
      findings.push_back({"profile.geometry", Severity::note, note,
                          "profiles know sizes and identities of models",
                          "with --profile a difference is an error"});
    return;
  }
  const std::size_t before = findings.size();
  const auto differ = [&](const char* what, const auto& is, const auto& should) {
    if (is != should)
      findings.push_back({"profile.geometry", Severity::error,
                          fmt::format("{} is {}, profile {} has {}", what, is, profile->name, should),
                          "it is another model, or a pruned one", "choose the profile of this model"});
  };
  if (const auto& known = profile->geometry) {
    differ("num_hidden_layers", found.layers, known->layers);
    differ("the number of routed experts", found.experts, known->experts);
    differ("hidden_size", found.hidden, known->hidden);
    differ("moe_intermediate_size", found.intermediate, known->intermediate);
  }
  if (experts && profile->expert_tensors)
    differ("the number of expert weights", experts->weights, *profile->expert_tensors);
  if (const auto& families = profile->families;
      experts && !families.empty() &&
      std::find(families.begin(), families.end(), name(experts->family)) == families.end())
    differ("the experts' format", std::string(name(experts->family)),
           fmt::format("{}", fmt::join(families, " or ")));
  if (findings.size() == before)
    findings.push_back({"profile.geometry", Severity::note, fmt::format("matches profile {}", profile->name),
                        "it is what it should be", "nothing"});
}

}  // namespace planesmith
