// repack-experts analyze --report: the fidelity of a model as one page that needs nothing else, for people
// who would rather look than read.
#pragma once

#include <string>

#include "fidelity/fidelity.h"

namespace planesmith {

// Error: the program was built without the plotting library (page/page.h).
std::string report_html(const Fidelity& fidelity, const std::string& title);

}  // namespace planesmith
