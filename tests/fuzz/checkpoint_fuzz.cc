// Input: a digit that chooses one of the golden checkpoints, config.json, a NUL,
// model.safetensors.index.json. The shards are the golden's own. Runs from the root of the source tree.
#include <algorithm>
#include <filesystem>
#include <list>

#include "base/error.h"
#include "checkpoint/model.h"
#include "memory_os.h"
#include "require.h"
#include "scratch.h"

using namespace planesmith;

namespace fs = std::filesystem;

namespace {

struct Front {
  std::string name, bytes;
  std::uint64_t size = 0;
};

// Of each golden checkpoint, the headers of its shards.
const std::vector<std::list<Front>>& goldens() {
  static const std::vector<std::list<Front>> all = [] {
    std::vector<fs::path> directories;
    for (const auto& entry : fs::directory_iterator(SOURCE_DIR "/tests/golden"))
      if (fs::exists(entry.path() / "checkpoint")) directories.push_back(entry.path() / "checkpoint");
    std::sort(directories.begin(), directories.end());
    std::vector<std::list<Front>> fronts(directories.size());
    for (std::size_t i = 0; i < directories.size(); ++i)
      for (const auto& entry : fs::directory_iterator(directories[i])) {
        if (entry.path().extension() != ".safetensors") continue;
        const File file = File::open_read(posix(), entry.path());
        const SafetensorsHeader header = read_safetensors_header(file);
        fronts[i].push_back({entry.path().filename(),
                             file_contents(entry.path()).substr(0, 8 + header.header_bytes),
                             header.file_bytes});
      }
    return fronts;
  }();
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t nul = input.find('\0');
  if (size == 0 || nul == 0 || nul == input.npos) return 0;
  MemoryOs os;
  os.nodes["c"] = {{}, 0, true};
  os.put("c/config.json", input.substr(1, nul - 1));
  os.put("c/" + std::string(kIndexName), input.substr(nul + 1));
  for (const Front& front : goldens()[static_cast<unsigned char>(input[0]) % goldens().size()])
    os.nodes["c/" + front.name] = {front.bytes, front.size};
  try {
    Context context{.os = os};
    const Checkpoint checkpoint = Checkpoint::open(context, "c");
    const Model model = find_experts(checkpoint);
    require(!model.layers.empty());
    for (const SparseLayer& layer : model.layers) {
      require(layer.index < model.geometry.layers && layer.experts.size() == model.geometry.experts);
      for (const Expert& expert : layer.experts)
        for (const ExpertTensors& tensors : expert)
          require(tensors.weight != nullptr && tensors.scale != nullptr);
    }
  } catch (const Error& error) {
    require(error.path().starts_with("c"));
  }
  return 0;
}
