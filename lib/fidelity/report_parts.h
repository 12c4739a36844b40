// What the report is made of, built into the program so that it needs no file when it runs.
#pragma once

#include <string_view>

namespace planesmith {

extern const std::string_view kReportPage;  // report.html
extern const std::string_view
    kChartLibrary;  // Chart.js, as the distribution packages it; empty: not there at build time

}  // namespace planesmith
