#include "upkeep/next_check.h"

#include <fmt/format.h>

#include "base/paths.h"
#include "base/text.h"

namespace planesmith {

void NextCheck::add(const UnitReport& report) {
  const Unit& unit = report.unit;
  if (unit.kind == ManifestKind::planescache)
    roots_.insert(cache_root(unit));
  else if (unit.kind == ManifestKind::pack)
    stores_.insert(real_path(unit.root));
  if (!report.manifest || !report.manifest->facts) {
    others_ = true;
    return;
  }
  const CacheFacts& facts = *report.manifest->facts;
  // The engine reads no planes cache of this family.
  if (unit.kind == ManifestKind::planescache && facts.family && !traits(*facts.family).has_cache)
    others_ = true;
  identities_.insert({facts.ckpt_id, facts.world, facts.zero_mode});
  ranks_.insert(facts.rank);
}

std::string NextCheck::command(const std::vector<std::string>& paths) const {
  const bool one = !others_ && roots_.size() <= 1 && stores_.size() <= 1 && identities_.size() == 1;
  const std::uint64_t world = one ? std::get<1>(*identities_.begin()) : 0;
  if (!one || (ranks_.size() != 1 && ranks_.size() != world)) {
    std::string out = "verify-ckpt-id verify";
    for (const std::string& path : paths) out += " " + shell_quoted(path);
    return out + " --allow-extra --since 1d";
  }
  std::string out = "verify-ckpt-id check";
  if (!roots_.empty()) out += " --planescache " + shell_quoted(*roots_.begin());
  if (!stores_.empty()) out += " --store " + shell_quoted(*stores_.begin());
  out +=
      fmt::format(" --ckpt-id {} --world {} --zero-mode {}", shell_quoted(std::get<0>(*identities_.begin())),
                  world, name(std::get<2>(*identities_.begin())));
  return out + (ranks_.size() == world ? "" : fmt::format(" --rank {}", *ranks_.begin()));
}

}  // namespace planesmith
