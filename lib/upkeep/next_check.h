// What to do after a repair.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "upkeep/units.h"

namespace planesmith {

class NextCheck {
 public:
  void add(const UnitReport& report);  // of every unit that was looked at

  // Where all are caches and packs of one identity: whether the engine would boot from them. Else verifies
  // `paths`, without reading again what was just read.
  std::string command(const std::vector<std::string>& paths) const;

 private:
  std::set<std::string> roots_, stores_;
  std::set<std::tuple<std::string, std::uint64_t, format::ZeroMode>> identities_;  // with their worlds
  std::set<std::uint64_t> ranks_;
  bool others_ = false;
};

}  // namespace planesmith
