// The sinks of a plan.
#pragma once

#include <memory>
#include <vector>

#include "pipeline/build.h"

namespace planesmith {

std::vector<std::unique_ptr<Sink>> make_sinks(const Context& context, const Plan& plan, const BuildTarget& target);

}  // namespace planesmith
