// What only fill_page() needs of the files built into the program.
#pragma once

#include <string_view>

namespace planesmith {

extern const std::string_view kPageStyle;   // page.css
extern const std::string_view kPageScript;  // page.js

}  // namespace planesmith
