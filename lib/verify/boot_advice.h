// What makes a server boot that would not.
#pragma once

#include <string>
#include <vector>

#include "store/probe.h"

namespace planesmith {

// Commands, in the order in which they are to be run: what is there and damaged is repaired, what is missing
// is built. A sentence where only another user can help: files that this user may not open, a read-only
// mount. checkpoint: empty where it is not known; CHECKPOINT stands for it then. Empty: nothing is missing,
// or what is there has another identity, which the reasons tell.
std::vector<std::string> boot_advice(Os& os, const BootVerdict& verdict, const Store& store,
                                     const std::string& checkpoint);

}  // namespace planesmith
