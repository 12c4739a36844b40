// Reports as one HTML page that needs nothing else: a template of the report's own, a style, a script and the
// plotting library, all built into the program.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace planesmith {

extern const std::string_view kFidelityPage;  // fidelity/report.html
extern const std::string_view kTiersPage;     // tiers/report.html
extern const std::string_view
    kChartLibrary;  // Chart.js as the distribution packages it; empty: absent at build time

// Error: the plotting library was absent when the program was built; says what to install. Ask before the
// work begins.
void require_plotting_library();

// The template with its marks (@@page.css@@, @@page.js@@, @@chart.js@@, @@data@@) replaced.
std::string fill_page(std::string_view page, const Json& data);

}  // namespace planesmith
