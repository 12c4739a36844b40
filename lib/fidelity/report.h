// repack-experts analyze --report:
// the fidelity of a model as one self-contained HTML page, which can be kept as evidence.
#pragma once

#include <string>

#include "fidelity/fidelity.h"

namespace planesmith {

// What was judged, when and with what.
struct Evidence {
  std::string directory, content_id;  // of the checkpoint
  std::string date;                   // "2026-11-30 09:20 UTC"
  std::string version;                // of the program
};

// Error: this program was built without the plotting library (page/page.h).
std::string report_html(const Fidelity& fidelity, const Evidence& evidence);

}  // namespace planesmith
