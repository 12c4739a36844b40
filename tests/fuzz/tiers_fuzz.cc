// Input: a routing capture (.npy) or a dump of the engine's pool. What is accepted can be read to its end.
#include <vector>

#include "base/error.h"
#include "base/size.h"
#include "memory_os.h"
#include "require.h"
#include "tiers/snapshot.h"
#include "tiers/trace.h"

using namespace planesmith;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  MemoryOs os;
  os.put("t", {reinterpret_cast<const char*>(data), size});
  const Context context{.os = os, .memory = 16 * kMiB};
  try {
    if (is_snapshot_file(os, "t")) {
      const PoolHistory history = read_snapshots(context, {"t"});
      require(history.snapshots != 0 && history.first_tick <= history.last_tick);
      return 0;
    }
    const Trace trace(context, {"t"}, 1, 1);
    std::uint64_t before = 0;
    bool any = false;
    trace.for_each_tick(context, 0, [&](std::uint64_t tick, std::span<const Pair> pairs) {
      require(!any || tick > before);
      before = tick;
      any = true;
      for (std::size_t i = 0; i < pairs.size(); ++i)
        require(pairs[i] < trace.numbers() && (i == 0 || pairs[i - 1] < pairs[i]));
    });
  } catch (const Error& error) {
    require(!std::string(error.what()).empty());
  }
  return 0;
}
