// The results of size-tiers as a self-contained page: curves, maps and churn over time.
#pragma once

#include <string>

#include "tiers/report.h"

namespace planesmith {

// Error: the plotting library was absent at build time (page/page.h).
std::string tiers_page(const TierReport& report);

}  // namespace planesmith
