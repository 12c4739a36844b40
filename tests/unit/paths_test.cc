#include "base/paths.h"

#include <doctest/doctest.h>

#include "scratch.h"

using namespace planesmith;

TEST_CASE("inside a directory is the directory and what is below it, not what begins with its name") {
  CHECK(is_inside("/a/b", "/a/b"));
  CHECK(is_inside("/a/b/c", "/a/b"));
  CHECK(is_inside("/a", "/"));
  CHECK(is_inside("/", "/"));
  CHECK(!is_inside("/a/bc", "/a/b"));
  CHECK(!is_inside("/a", "/a/b"));
  CHECK(!is_inside("/", "/a"));
}

TEST_CASE("the nearest existing directory above a path") {
  const Scratch scratch;
  CHECK(nearest_existing(posix(), scratch / "a/b/c") == scratch.path());
  CHECK(nearest_existing(posix(), scratch.path()) == scratch.path());
  put_file(scratch / "f", "");
  CHECK(nearest_existing(posix(), scratch / "f/g") == scratch / "f");
  CHECK(nearest_existing(posix(), "no such directory/x") == ".");
  CHECK(nearest_existing(posix(), "/no such directory/x") == "/");
}
