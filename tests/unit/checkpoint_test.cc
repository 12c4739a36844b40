// Opening checkpoint folders: index, shards, and what is refused.
#include "checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "base/error.h"

using namespace planesmith;

namespace fs = std::filesystem;

TEST_CASE("every golden checkpoint opens, with any number of threads") {
  int folders = 0;
  for (const auto& entry : fs::directory_iterator(SOURCE_DIR "/tests/golden")) {
    const std::string folder = entry.path() / "checkpoint";
    if (!fs::exists(folder)) continue;
    CAPTURE(folder);
    ++folders;
    for (const int threads : {1, 8}) {
      Context context;
      context.threads = threads;
      const Checkpoint checkpoint = Checkpoint::open(context, folder);
      CHECK(checkpoint.has_index());
      CHECK(checkpoint.shards().size() >= 2);
      CHECK(!checkpoint.tensors().empty());
      for (const Tensor& tensor : checkpoint.tensors()) CHECK(checkpoint.find(tensor.name) == &tensor);
      CHECK(checkpoint.find("nothing of that name") == nullptr);
    }
  }
  CHECK(folders == 7);
}
