// The groups of checks; each adds what it finds.
#pragma once

#include <vector>

#include "audit/inventory.h"

namespace planesmith {

using Findings = std::vector<Finding>;

// Completeness, scales, zeros, what the planes format can hold.
void check_experts(const Context& context, const Inventory& inventory, const AuditRequest& request, Findings& findings);
// Drafters, ignore lists, recipe groups: what quantizers lose or touch without a word.
void check_recipe(const Inventory& inventory, Findings& findings);
// Tokenizer and processor files. source: folder of the checkpoint this one was made from; empty: none.
void check_files(const Context& context, const Inventory& inventory, const std::string& source, Findings& findings);
// Drafters and every tensor that is not a routed expert's against the checkpoint this one was made from; returns how
// many are identical.
std::uint64_t check_against(const Context& context, const Inventory& inventory, const Inventory& source,
                            Findings& findings);
void check_profile(const Inventory& inventory, const Profile& profile, Findings& findings);

}  // namespace planesmith
