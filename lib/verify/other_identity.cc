#include "verify/other_identity.h"

#include "base/error.h"
#include "base/file.h"
#include "format/file_names.h"

namespace planesmith {

constexpr std::uint64_t kMaxText = 16 << 20;  // of a meta.json or sidecar

std::optional<std::string> other_identity(Os& os, const Manifest& manifest, const std::string& root) {
  if (!manifest.facts) return std::nullopt;
  const auto matches = [&](const std::string& name, const std::string& ckpt_id) {
    const DerivedFile derived = derived_files(under_identity(manifest, ckpt_id)).at(0);
    return ckpt_id != manifest.facts->ckpt_id && derived.path == name &&
           derived.content == read_text(os, join(root, name), kMaxText);
  };
  std::vector<std::string> candidates = {derived_files(manifest).at(0).path};
  if (manifest.kind == ManifestKind::pack) {
    if (exists(os, join(root, manifest.files.at(0).path))) return std::nullopt;
    candidates = list_dir(os, root);  // the key is in the name
  }
  for (const std::string& name : candidates) {
    if (manifest.kind == ManifestKind::pack && format::stem_of_file(name).empty()) continue;
    try {
      const Json document = read_json(os, join(root, name), kMaxText);
      if (!document.is_object() || !document.contains("ckpt_id") || !document["ckpt_id"].is_string())
        continue;
      if (const std::string id = document["ckpt_id"]; matches(name, id)) return id;
    } catch (const Error&) {  // another file, or a damaged one, which is reported elsewhere
    }
  }
  return std::nullopt;
}

Manifest under_identity(Manifest manifest, const std::string& ckpt_id) {
  manifest.facts.value().ckpt_id = ckpt_id;
  if (manifest.kind == ManifestKind::pack) {
    const std::string sidecar = derived_files(manifest).at(0).path;
    manifest.files.at(0).path = format::pack_file(format::stem_of_file(sidecar));
  }
  return manifest;
}

}  // namespace planesmith
