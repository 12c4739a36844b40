// translate --gate: what it compares, on checkpoints that real exporters could have written.
#include <doctest/doctest.h>

#include "rewrite/translate.h"
#include "rewrite_checkpoints.h"
#include "scratch.h"

using namespace planesmith;
using namespace planesmith::test;

TEST_CASE("a global scale of any float type is read as what it is") {
  for (const char* dtype : {"F32", "BF16", "F16"}) {
    CAPTURE(dtype);
    const Scratch scratch;
    make_packed(scratch / "source", dtype);
    RewriteOptions rewrite;
    rewrite.source = scratch / "source";
    rewrite.target = scratch / "out";
    translate(Context{}, {.rewrite = rewrite});
    const TranslateGate gate = compare_translated(Context{}, scratch / "source", scratch / "out");
    CHECK(gate.differences == std::vector<std::string>{});
    CHECK(gate.elements == kExperts * 3 * kHidden * kInner);
  }
}
