// The "model manifest" that the engine's model list publishes and its launcher compares (ENGINE.md section
// 8).
#pragma once

#include <string>

#include "checkpoint/identity.h"

namespace planesmith {

// The id in hex. content: of this directory, whose digests are used. Errors: no config.json; a weight file
// that the launcher would count and that is none of content's.
std::string model_manifest_id(const Context& context, const std::string& directory, const ContentId& content);

// The launcher's marker: what it finds complete it does not download again.
inline constexpr std::string_view kMarkerName = ".vllm-moet-snapshot.json";
struct HubOrigin {
  std::string repository, commit;  // "deepseek-ai/DeepSeek-V4-Flash"; empty: not known
};
// Where a directory was downloaded from: a snapshot in a Hugging Face cache says it in its path, a
// --local-dir download the commit.
HubOrigin origin_of(Os& os, const std::string& directory);
// Writes the marker; what is not known of the origin is left out.
void write_marker(Os& os, const std::string& directory, const std::string& manifest_id,
                  const HubOrigin& origin);

}  // namespace planesmith
