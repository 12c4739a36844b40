// The groups of checks; each adds its findings.
#pragma once

#include <optional>
#include <vector>

#include "audit/inventory.h"
#include "checkpoint/model.h"

namespace planesmith {

using Findings = std::vector<Finding>;

// Experts that planes can be made of.
struct Experts {
  Family family;
  format::Geometry geometry;
  std::uint64_t weights;  // tensors
};

// Layout, completeness, scales, zeros, and whether planes can be made for `world` ranks.
// None: they cannot be made at all.
std::optional<Experts> check_experts(const Context& context, const Inventory& inventory, std::uint64_t world,
                                     Findings& findings);
// Weights without content: one code throughout, copies of another expert, shards that end in zeros.
void check_contents(const Context& context, const Inventory& inventory, Findings& findings);
// Ignore lists and recipe groups: what quantizers silently change or leave out.
void check_recipe(const Inventory& inventory, Findings& findings);
// Drafter layers: lost, not ignored by the recipe, or other layers that look like one.
void check_drafters(const Inventory& inventory, Findings& findings);
// Tokenizer and processor files. source: directory of the checkpoint that this one was made from, or empty.
void check_files(const Context& context, const Inventory& inventory, const std::string& source,
                 Findings& findings);
// Drafters, every tensor that is not a routed expert's, and the experts' scales where they have the same
// form, against the checkpoint this one was made from; returns how many are identical.
std::uint64_t check_against(const Context& context, const Inventory& inventory, const Inventory& source,
                            Findings& findings);
// Whether the caches and packs in a directory were made from this checkpoint (FORMAT.md section 10).
void check_cache(const Context& context, const std::string& checkpoint, const std::string& directory,
                 Findings& findings);
// experts: none where they were refused; the geometry in config.json is compared then. Without a profile, the
// geometry is compared with all installed profiles, and the result is a note.
void check_profile(const Context& context, const Inventory& inventory, const std::optional<Experts>& experts,
                   const std::optional<Profile>& profile, Findings& findings);

}  // namespace planesmith
