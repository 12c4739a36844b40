// The sinks of a plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipeline/build.h"

namespace planesmith {

std::vector<std::unique_ptr<Sink>> make_sinks(const Context& context, const Plan& plan,
                                              const BuildTarget& target);

// The nearest directory of a path that is there already. Error: nothing can be made in it.
std::string writable_base(const Context& context, const std::string& path);

}  // namespace planesmith
