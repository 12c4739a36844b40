// repack-experts analyze --report: the fidelity of a model as one page that needs nothing else, for people
// who would rather look than read.
#pragma once

#include <string>

#include "fidelity/fidelity.h"

namespace planesmith {

// Error: the plotting library was not there when the program was built; says what to install. To be asked
// before the work is begun.
void require_plotting_library();

std::string report_html(const Fidelity& fidelity, const std::string& title);

}  // namespace planesmith
