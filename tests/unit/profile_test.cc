// Model profiles: read strictly where they are read, found by name and by file.
#include "manifest/profile.h"

#include <doctest/doctest.h>
#include <stdlib.h>

#include "base/error.h"
#include "scratch.h"

using namespace planesmith;

namespace {

const std::string kWhole = R"({"name": "glm", "revision": "abc", "families": ["NVFP4"], "expert_tensors": 18,
  "geometry": {"layers": 3, "experts": 3, "hidden": 192, "intermediate": 128, "first_dense": 1},
  "pins": {"ckpt_id": "x"}, "sizes": {"anything": 1}})";

std::string reason(const std::string& text) {
  try {
    parse_profile(text, "p.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a profile says what it says") {
  const Profile profile = parse_profile(kWhole, "p.json");
  CHECK(profile.name == "glm");
  CHECK(profile.revision == "abc");
  CHECK(profile.geometry == format::Geometry{3, 3, 192, 128});
  CHECK(profile.sparse_layers() == std::vector<std::uint64_t>{1, 2});
  CHECK(profile.families == std::vector<std::string>{"NVFP4"});
  CHECK(profile.expert_tensors == 18);
  CHECK(profile.pins.at("ckpt_id") == "x");
  const Profile least = parse_profile(
      R"({"name": "n", "geometry": {"layers": 1, "experts": 1, "hidden": 1, "intermediate": 1}})", "p.json");
  CHECK(least.sparse_layers() == std::vector<std::uint64_t>{0});
  CHECK_FALSE(least.expert_tensors);
}

TEST_CASE("a profile that cannot be is refused") {
  CHECK(reason("[]") == "p.json: is no profile: not a JSON object");
  CHECK(reason("{\"name\": \"x\"}") == "p.json: is no profile: it has no \"geometry\"");
  CHECK(reason("{\"geometry\": {}}") == "p.json: \"name\" of a profile must be a string");
  const std::pair<const char*, const char*> changes[] = {
      {"\"layers\": 3", "\"layers\": 0"},          {"\"experts\": 3", "\"experts\": -3"},
      {"\"hidden\": 192", "\"hidden\": 1.5"},      {"\"first_dense\": 1", "\"first_dense\": 4"},
      {"\"intermediate\": 128", "\"i\": 128"},     {"[\"NVFP4\"]", "\"NVFP4\""},
      {"\"expert_tensors\": 18", "\"expert_tensors\": \"18\""}, {"{\"ckpt_id\": \"x\"}", "[]"},
      {"\"revision\": \"abc\"", "\"revision\": 1}"}};
  for (const auto& [what, by] : changes) {
    CAPTURE(by);
    std::string text = kWhole;
    text.replace(text.find(what), std::string(what).size(), by);
    CHECK(reason(text) != "");
  }
}

TEST_CASE("a profile is found by name or file") {
  const Scratch dir;
  put_file(dir / "glm.json", kWhole);
  REQUIRE(::setenv("PLANESMITH_PROFILES", dir.path().c_str(), 1) == 0);
  CHECK(profile_folders().front() == dir.path());
  CHECK(find_profile(posix(), "glm").name == "glm");
  CHECK(find_profile(posix(), dir / "glm.json").name == "glm");
  try {
    find_profile(posix(), "other");
    FAIL("found");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::usage);
    CHECK(std::string(error.what()).find("glm") != std::string::npos);
  }
  ::unsetenv("PLANESMITH_PROFILES");
}
