// The sinks of a plan: one for each cache and pack of each rank.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipeline/build.h"

namespace planesmith {

std::vector<std::unique_ptr<Sink>> make_sinks(const Context& context, const Plan& plan,
                                              const BuildTarget& target);

// The nearest existing directory at or above a path. Error: it is not a writable directory.
std::string writable_base(const Context& context, const std::string& path);

}  // namespace planesmith
