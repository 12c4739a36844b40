// Choosing what converts.
#include "quant/backend.h"

#include <doctest/doctest.h>

#include "base/error.h"

namespace planesmith {
namespace {

ErrorCode code_of_failure(const BackendChoice& choice) {
  try {
    make_backend(choice)->wait();
  } catch (const Error& error) {
    return error.code();
  }
  FAIL("no error");
  return {};
}

}  // namespace

TEST_CASE("the CPU is chosen by name and by its instruction sets") {
  CHECK(make_backend({"cpu", "auto", {}})->describe().starts_with("cpu ("));
  CHECK(make_backend({"cpu", "scalar", {}})->describe() == "cpu (scalar)");
  CHECK(make_backend({"auto", "scalar", {}})->describe() == "cpu (scalar)");
}

TEST_CASE("names that do not exist are usage errors") {
  CHECK(code_of_failure({"gpu", "auto", {}}) == ErrorCode::usage);
  CHECK(code_of_failure({"", "auto", {}}) == ErrorCode::usage);
  CHECK(code_of_failure({"cpu", "sse9", {}}) == ErrorCode::usage);
}

TEST_CASE("auto means the CPU where it has vector kernels; without a GPU cuda is an error that says why") {
  std::string why;
  if (make_cuda_backend({}, why) != nullptr) {
    const bool scalar = choose_kernels("auto").name == "scalar";
    CHECK(make_backend({})->describe().starts_with(scalar ? "cuda (" : "cpu ("));
    CHECK(make_backend({"cuda", "auto", {}})->describe().starts_with("cuda ("));
    return;
  }
  CHECK(!why.empty());
  CHECK(make_backend({})->describe().starts_with("cpu ("));
  CHECK_THROWS_WITH_AS(make_backend({"cuda", "auto", {}})->wait(), doctest::Contains(why.c_str()), Error);
  CHECK(code_of_failure({"cuda", "auto", {}}) == ErrorCode::failed);
}

}  // namespace planesmith
