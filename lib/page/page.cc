#include "page/page.h"

#include "base/error.h"
#include "page/parts.h"

namespace planesmith {
namespace {

// JSON that is safe inside a script element.
std::string script_safe(const Json& json) {
  std::string text = compact(json), out;
  for (const char c : text) {
    if (c == '<')
      out += "\\u003c";
    else
      out += c;
  }
  return out;
}

void replace(std::string& text, std::string_view mark, std::string_view by) {
  text.replace(text.find(mark), mark.size(), by);
}

}  // namespace

void require_plotting_library() {
  if (kChartLibrary.empty())
    throw Error(
        "this program was built without the plotting library that --report needs; install the package "
        "libjs-chart.js and build it again");
}

std::string fill_page(std::string_view page, const Json& data) {
  require_plotting_library();
  std::string text(page);
  replace(text, "@@page.css@@", kPageStyle);
  replace(text, "@@page.js@@", kPageScript);
  replace(text, "@@chart.js@@", kChartLibrary);  // before the data, which may hold any text
  replace(text, "@@data@@", script_safe(data));
  return text;
}

}  // namespace planesmith
