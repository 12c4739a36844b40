// Reports as one self-contained HTML page:
// the report's own template, a style, a script and the plotting library, all built into the program.
#pragma once

#include <string>
#include <string_view>

#include "base/json.h"

namespace planesmith {

extern const std::string_view kFidelityPage;  // fidelity/report.html
extern const std::string_view kTiersPage;     // tiers/report.html
// Chart.js as the distribution packages it; empty: absent when this program was built.
extern const std::string_view kChartLibrary;

// Error, with the package to install: this program was built without the plotting library.
// To be called before the work begins.
void require_plotting_library();

// The template with its marks (@@page.css@@, @@page.js@@, @@chart.js@@, @@data@@) replaced.
std::string fill_page(std::string_view page, const Json& data);

}  // namespace planesmith
