// What a verification found, for people and for programs, and what to do about it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "verify/verify_files.h"

namespace planesmith {
namespace {

using Kind = Difference::Kind;

bool has(const Verification& result, std::initializer_list<Kind> kinds) {
  return std::any_of(result.differences.begin(), result.differences.end(), [&](const Difference& difference) {
    return std::find(kinds.begin(), kinds.end(), difference.kind) != kinds.end();
  });
}

bool is_damage(const Difference& difference) {
  return difference.kind == Kind::missing || difference.kind == Kind::size ||
         difference.kind == Kind::content || difference.kind == Kind::unreadable ||
         difference.kind == Kind::kind;
}

std::string flags_of(const CacheFacts& facts, const std::string& ckpt_id) {
  return fmt::format("--ckpt-id {} --world {} --rank {} --zero-mode {}", shell_quoted(ckpt_id), facts.world,
                     facts.rank, format::name(facts.zero_mode));
}

// Layers that damaged parts belong to; all where meta.json itself is damaged.
std::set<std::uint64_t> damaged_layers(const Manifest& manifest, const Verification& result) {
  std::set<std::uint64_t> layers;
  for (const Difference& difference : result.differences) {
    if (!is_damage(difference) || !difference.path.starts_with("layer")) continue;
    std::uint64_t layer = 0;
    const char* const begin = difference.path.data() + 5;
    if (std::from_chars(begin, difference.path.data() + difference.path.size(), layer).ptr != begin)
      layers.insert(layer);
  }
  if (layers.empty()) layers.insert(manifest.facts->layers.begin(), manifest.facts->layers.end());
  return layers;
}

std::string rebuild_command(const Manifest& manifest, const Verification& result,
                            const VerifyOptions& options) {
  const CacheFacts& facts = *manifest.facts;
  const std::string id = result.found_identity.empty() ? facts.ckpt_id : result.found_identity;
  if (manifest.kind == ManifestKind::pack)
    return fmt::format("build-fp4-packs CHECKPOINT --out {} --tiers {} {} --force",
                       shell_quoted(options.root), format::name(*facts.tier), flags_of(facts, id));
  // <root>/v2/<key>/tp<W>-rank<r>
  const format::CacheMeta meta{id, facts.world, facts.rank, facts.zero_mode,
                               facts.fp4 == format::Fp4Tier::quintal};
  const std::string folder = format::cache_folder(meta), real = real_path(options.root);
  const std::string root =
      real.ends_with("/" + folder) ? real.substr(0, real.size() - folder.size() - 1) : "ROOT";
  return fmt::format("build-planescache CHECKPOINT --out {} --fp4 {} {} --layers {} --force",
                     shell_quoted(root), format::name(*facts.fp4), flags_of(facts, id),
                     fmt::join(damaged_layers(manifest, result), ","));
}

}  // namespace

std::vector<std::string> advice(const Manifest& manifest, const Verification& result,
                                const VerifyOptions& options) {
  std::vector<std::string> out;
  const bool damaged = std::any_of(result.differences.begin(), result.differences.end(), is_damage);
  const auto missing =
      std::count_if(result.differences.begin(), result.differences.end(),
                    [](const Difference& difference) { return difference.kind == Kind::missing; });
  if (missing != 0 && static_cast<std::uint64_t>(missing) == result.files)
    out.push_back(fmt::format(
        "nothing of it is in {}: name the folder that the manifest's paths start from with --root",
        options.root));
  else if (damaged && manifest.facts)
    out.push_back("copy or download what differs again, or build it again: " +
                  rebuild_command(manifest, result, options));
  else if (damaged)
    out.push_back("copy or download what differs again, then verify again");
  if (has(result, {Kind::unreadable}))
    out.push_back("what cannot be read may be on a failing disk: look at the kernel's log");
  if (has(result, {Kind::link}))
    out.push_back("links are never followed: verify the folder that holds the files themselves");
  if (has(result, {Kind::extra})) out.push_back("take away what is extra, or accept it with --allow-extra");
  if (has(result, {Kind::listing})) out.push_back("upload what differs in the repository again");
  if (has(result, {Kind::identity}))
    out.push_back(fmt::format(
        "only the identity differs, the data were held against the manifest all the same: serve with "
        "VLLM_MOE_W2_CKPT_ID={}, or rename it with verify-ckpt-id rekey --from {} --to {}",
        shell_quoted(result.found_identity), shell_quoted(result.found_identity),
        shell_quoted(manifest.facts->ckpt_id)));
  return out;
}

std::string to_text(const Manifest& manifest, const Verification& result, const VerifyOptions& options) {
  std::string out;
  for (const Difference& difference : result.differences)
    out += fmt::format("{:<11}{}: {}\n", name(difference.kind), printable(difference.path),
                       printable(difference.what));
  for (const std::string& note : result.notes) out += fmt::format("note: {}\n", printable(note));
  const std::string read =
      options.quick
          ? "names, kinds and sizes only"
          : fmt::format("{} read", exact_size(result.bytes)) +
                (result.bytes_before == 0 ? ""
                                          : fmt::format(", {} found good by an interrupted run before",
                                                        exact_size(result.bytes_before)));
  if (result.ok())
    return out + fmt::format("ok: {} files are what the manifest says ({})\n", result.files, read);
  out +=
      fmt::format("{} differences, {} files compared ({})\n", result.differences.size(), result.files, read);
  for (const std::string& line : advice(manifest, result, options))
    out += fmt::format("to do: {}\n", printable(line));
  return out;
}

Json to_json(const Manifest& manifest, const Verification& result, const VerifyOptions& options) {
  // Paths of a foreign list may not be UTF-8; a JSON document has to be.
  Json differences = Json::array();
  for (const Difference& difference : result.differences) {
    differences.push_back({{"kind", name(difference.kind)},
                           {"path", printable(difference.path)},
                           {"what", printable(difference.what)}});
    if (!difference.blocks.empty()) differences.back()["blocks"] = difference.blocks;
  }
  Json out = {{"ok", result.ok()},
              {"kind", name(manifest.kind)},
              {"root", printable(options.root)},
              {"quick", options.quick},
              {"files", result.files},
              {"bytes", result.bytes},
              {"bytes_before", result.bytes_before},
              {"differences", differences},
              {"notes", Json::array()},
              {"to_do", Json::array()}};
  for (const std::string& note : result.notes) out["notes"].push_back(printable(note));
  if (!result.ok())
    for (const std::string& line : advice(manifest, result, options)) out["to_do"].push_back(printable(line));
  return out;
}

}  // namespace planesmith
