// Compares a checkpoint with the caches and packs that were made from it.
#include <fmt/format.h>

#include "audit/checks.h"
#include "base/error.h"
#include "checkpoint/fingerprint.h"
#include "store/store.h"

namespace planesmith {

void check_cache(const Context& context, const std::string& checkpoint, const std::string& directory,
                 Findings& findings) {
  std::string fingerprint;
  try {
    const Checkpoint opened = Checkpoint::open(context, checkpoint);
    fingerprint = source_fingerprint(context, opened, find_experts(opened));
  } catch (const Error& error) {
    if (is_stop(error.code())) throw;
    findings.push_back({"cache.unknown", Severity::warning,
                        fmt::format("{} cannot be compared: {}", directory, error.what()),
                        "the checkpoint has no fingerprint while it cannot be read",
                        "repair the checkpoint first"});
    return;
  }
  std::uint64_t seen = 0;
  const auto judge = [&](const std::string& path, const std::string& source) {
    ++seen;
    if (source.empty())
      findings.push_back({"cache.unknown", Severity::warning,
                          fmt::format("{} does not say what it was made from", path),
                          "it may hold another model's experts",
                          "compare a sample: verify-ckpt-id check --checkpoint DIR --sample 20"});
    else if (source != fingerprint)
      findings.push_back(
          {"cache.source", Severity::error,
           fmt::format("{} was made from another checkpoint: its source is {}, this checkpoint's is {}", path,
                       source, fingerprint),
           "served together they answer with the other model's experts",
           "name the right checkpoint, or build a cache of this one under another identity"});
  };
  const Store store = scan_store(context.os, directory, directory);
  for (const FoundCache& cache : store.caches) judge(cache.path, cache.source);
  for (const FoundPack& pack : store.packs) judge(format::pack_file(pack.stem), pack.source);
  if (seen == 0) throw Error(directory, "holds neither a planes cache nor packs");
}

}  // namespace planesmith
