// The directories of lib are layers: a file includes only from its own and from earlier ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {

// The names between "set(PLANESMITH_LAYERS" and ")" in lib/CMakeLists.txt, from the bottom up.
std::vector<std::string> listed_layers() {
  std::ifstream file(SOURCE_DIR "/lib/CMakeLists.txt");
  std::vector<std::string> layers;
  std::string word;
  while (file >> word && word != "set(PLANESMITH_LAYERS") continue;
  while (file >> word && word != ")") layers.push_back(word);
  return layers;
}

}  // namespace

TEST_CASE("includes point only to the same or an earlier layer") {
  const std::vector<std::string> layers = listed_layers();
  REQUIRE(layers.size() > 10);
  const auto rank = [&](const std::string& layer) {
    const auto it = std::find(layers.begin(), layers.end(), layer);
    return it == layers.end() ? -1 : static_cast<int>(it - layers.begin());
  };
  const std::regex include(R"re(^\s*#include "([a-z]+)/[^"]+")re");
  int checked = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SOURCE_DIR "/lib")) {
    if (!entry.is_regular_file() || entry.path().filename() == "CMakeLists.txt") continue;
    const std::string layer = std::filesystem::relative(entry.path(), SOURCE_DIR "/lib").begin()->string();
    CAPTURE(entry.path().string());
    REQUIRE(rank(layer) >= 0);
    std::ifstream file(entry.path());
    for (std::string line; std::getline(file, line);) {
      std::smatch match;
      if (!std::regex_search(line, match, include)) continue;
      CAPTURE(line);
      CHECK(rank(match[1]) >= 0);
      CHECK(rank(match[1]) <= rank(layer));
      ++checked;
    }
  }
  CHECK(checked > 0);
}

// Two types of one name in one namespace compile, link and then run each other's member functions.
TEST_CASE("no two headers define the same type") {
  const std::regex space(R"(^namespace ([a-z_:]+) \{)"),
      type(R"(^(?:struct|class|enum class) (\w+(?:::\w+)*)[^;]*\{)");
  std::map<std::string, std::string> defined;  // type: header
  for (const auto& entry : std::filesystem::recursive_directory_iterator(SOURCE_DIR "/lib")) {
    if (entry.path().extension() != ".h") continue;
    std::ifstream file(entry.path());
    std::string scope;
    std::smatch match;
    for (std::string line; std::getline(file, line);) {
      if (std::regex_search(line, match, space)) scope = match[1];
      if (!std::regex_search(line, match, type)) continue;
      const auto [found, first] = defined.emplace(scope + "::" + match[1].str(), entry.path());
      const auto& at = found;  // clang 14 cannot capture structured bindings
      CAPTURE(at->first);
      CAPTURE(at->second);
      CAPTURE(entry.path().string());
      CHECK(first);
    }
  }
  CHECK(defined.size() > 50);
}
