#pragma once

#include <string>

namespace planesmith {

std::string version();       // "planesmith 0.1.0", as manifests record it
std::string version_text();  // the same and, a line each, the libraries and accelerators it was built with

}  // namespace planesmith
