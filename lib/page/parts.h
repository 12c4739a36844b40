// Files built into the program that only fill_page() needs.
#pragma once

#include <string_view>

namespace planesmith {

extern const std::string_view kPageStyle;   // page.css
extern const std::string_view kPageScript;  // page.js

}  // namespace planesmith
