#pragma once

#include <string>

namespace planesmith {

std::string version();    // "planesmith 0.1.0", as manifests record it
std::string libraries();  // the versions of the libraries and accelerators it was built with, in one line

}  // namespace planesmith
