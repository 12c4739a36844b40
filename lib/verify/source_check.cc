#include "verify/source_check.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"

namespace planesmith {

SourceCheck check_sources(const Store& store, const Boot& boot, const std::string& fingerprint) {
  std::vector<SourceCheck::Artifact> all;
  for (const FoundCache& cache : store.caches)
    if (cache.meta && cache.meta->ckpt_id == boot.ckpt_id && cache.meta->world == boot.world &&
        cache.meta->zero_mode == boot.zero_mode)
      all.push_back({cache.path, cache.source});
  for (const FoundPack& pack : store.packs)
    if (pack.sidecar && pack.sidecar->spec.ckpt_id == boot.ckpt_id && pack.world == boot.world &&
        pack.sidecar->spec.zero_mode == boot.zero_mode)
      all.push_back({format::pack_file(pack.stem), pack.source});

  SourceCheck out;
  out.of_checkpoint = !fingerprint.empty();
  out.expected = fingerprint;
  for (SourceCheck::Artifact& artifact : all) {
    if (out.expected.empty()) out.expected = artifact.source;
    if (artifact.source.empty())
      out.unknown.push_back(std::move(artifact));
    else if (artifact.source != out.expected)
      out.others.push_back(std::move(artifact));
  }
  return out;
}

std::string to_text(const SourceCheck& check) {
  std::string text;
  for (const SourceCheck::Artifact& other : check.others)
    text += fmt::format("OTHER SOURCE  {}: this was made from another checkpoint: its source is {}, {} {}\n",
                        printable(other.path), other.source,
                        check.of_checkpoint ? "this checkpoint's is" : "that of the others here is",
                        check.expected);
  if (check.others.empty()) return text;
  return text + (check.of_checkpoint
                     ? "this cache was made from another checkpoint; it does not fit this one, and there is "
                       "nothing to repair: name the right checkpoint, or build a cache of this one under "
                       "another identity\n"
                     : "what is here was made from different checkpoints and must not be served together\n");
}

Json to_json(const SourceCheck& check) {
  const auto listed = [](const std::vector<SourceCheck::Artifact>& artifacts) {
    Json out = Json::array();
    for (const SourceCheck::Artifact& one : artifacts) {
      out.push_back({{"path", printable(one.path)}});
      if (!one.source.empty()) out.back()["source"] = one.source;
    }
    return out;
  };
  return {{"expected", check.expected}, {"other", listed(check.others)}, {"unknown", listed(check.unknown)}};
}

}  // namespace planesmith
