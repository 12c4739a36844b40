// The "model manifest" that the engine's model list publishes
// and its launcher compares (ENGINE.md section 8).
#pragma once

#include <string>

#include "checkpoint/identity.h"

namespace planesmith {

// The id in hex, from the digests in `content`, which is of this directory. Errors: no config.json; a weight
// file that the launcher counts but `content` does not cover.
std::string model_manifest_id(const Context& context, const std::string& directory, const ContentId& content);

// The launcher's marker of a complete download, which it does not download again.
inline constexpr std::string_view kMarkerName = ".vllm-moet-snapshot.json";
struct HubOrigin {
  std::string repository, commit;  // "deepseek-ai/DeepSeek-V4-Flash"; empty: not known
};
// Where a directory was downloaded from: the path of a snapshot in a Hugging Face cache tells both, the
// metadata of a --local-dir download only the commit.
HubOrigin origin_of(Os& os, const std::string& directory);
// Writes the marker, without the unknown parts of the origin.
void write_marker(Os& os, const std::string& directory, const std::string& manifest_id,
                  const HubOrigin& origin);

}  // namespace planesmith
