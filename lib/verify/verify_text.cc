// The result of a verification as text and JSON, and what to do about it.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "manifest/known_model.h"
#include "plan/describe.h"
#include "verify/other_identity.h"
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
  if (difference.denied) return false;
  return difference.kind == Kind::missing || difference.kind == Kind::size ||
         difference.kind == Kind::content || difference.kind == Kind::unreadable ||
         difference.kind == Kind::kind;
}

std::string flags_of(const CacheFacts& facts, const std::string& ckpt_id) {
  const std::uint64_t drafts = facts.geometry.drafts;
  return fmt::format("--ckpt-id {} --world {} --rank {} --zero-mode {}{}", shell_quoted(ckpt_id), facts.world,
                     facts.rank, format::name(facts.zero_mode),
                     drafts == 0 ? "" : fmt::format(" --drafts {}", drafts));
}

// Indices of the damaged layers; all layers where the damage cannot be located.
std::vector<std::uint64_t> damaged_layers(const Manifest& manifest, const Verification& result) {
  const CacheFacts& facts = *manifest.facts;
  const std::vector<std::uint64_t> all = model_of_manifest(facts, "").layers;
  std::set<std::uint64_t> layers;
  for (const Difference& difference : result.differences) {
    if (!is_damage(difference)) continue;
    if (manifest.kind == ManifestKind::planescache) {
      for (const std::uint64_t layer : all)
        if (difference.path.starts_with(fmt::format("layer{}.", layer))) layers.insert(layer);
      continue;
    }
    if (!format::is_pack_file(difference.path)) continue;
    const std::size_t per_layer = facts.geometry.experts * format::slot_sections(*facts.tier).size();
    for (const std::size_t block : difference.blocks) layers.insert(all.at(block / per_layer));
    if (difference.kind != Kind::content) layers.insert(all.begin(), all.end());
  }
  return {layers.begin(), layers.end()};
}

// Empty: no layer is damaged.
std::string rebuild_command(const Manifest& manifest, const Verification& result,
                            const VerifyOptions& options) {
  const std::vector<std::uint64_t> layers = damaged_layers(manifest, result);
  if (layers.empty()) return "";
  const CacheFacts& facts = *manifest.facts;
  const std::string id = result.found_identity.empty() ? facts.ckpt_id : result.found_identity;
  const std::string real = real_path(options.root);
  std::string program;
  if (manifest.kind == ManifestKind::pack) {
    program = fmt::format("build-fp4-packs CHECKPOINT --out {} --tiers {}", shell_quoted(real),
                          format::name(*facts.tier));
  } else {
    // <root>/v2/<key>/tp<W>-rank<r>
    const std::string directory = format::cache_directory(
        {id, facts.world, facts.rank, facts.zero_mode, facts.fp4 == format::Fp4Tier::quintal});
    const std::string root =
        real.ends_with("/" + directory) ? real.substr(0, real.size() - directory.size() - 1) : "ROOT";
    program = fmt::format("build-planescache CHECKPOINT --out {} --fp4 {}", shell_quoted(root),
                          format::name(*facts.fp4));
  }
  return fmt::format("{} {} --layers {} --force", program, flags_of(facts, id), number_list(layers, ","));
}

// Commands that repair without a checkpoint: meta.json or sidecar, which follow from the manifest, and bytes
// that must be zero.
std::vector<std::string> small_repairs(const Manifest& manifest, const Verification& result,
                                       const VerifyOptions& options) {
  std::vector<std::string> out;
  const std::string root = real_path(options.root);
  const Manifest local =
      result.found_identity.empty() ? manifest : under_identity(manifest, result.found_identity);
  for (const Difference& difference : result.differences) {
    const std::string path = shell_quoted(join(root, difference.path));
    for (const DerivedFile& derived : derived_files(local))
      if (derived.path == difference.path && is_damage(difference))
        out.push_back(fmt::format("write it again: printf %s {} > {}", shell_quoted(derived.content), path));
    for (const BlockRange& stray : difference.strays)
      out.push_back(fmt::format("zero these bytes: fallocate --punch-hole --offset {} --length {} {}",
                                stray.offset, stray.size, path));
  }
  return out;
}

// Whether a directory belongs to a snapshot of a Hugging Face cache, whose files are links into blobs/.
bool in_snapshot(const std::string& directory) {
  return real_path(directory).find("/snapshots/") != std::string::npos;
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
        "none of its files is in {}: give the directory that the manifest's paths start from with --root",
        options.root));
  else if (damaged && manifest.facts) {
    // Without meta.json or sidecar the data have no identity, so these come first.
    out = small_repairs(manifest, result, options);
    if (const std::string command = rebuild_command(manifest, result, options); !command.empty())
      out.push_back("copy or download what differs again, or build it again: " + command);
  } else if (damaged)
    out.push_back("copy or download what differs again, then verify again");
  const auto denied = [](const Difference& difference) { return difference.denied; };
  if (std::any_of(result.differences.begin(), result.differences.end(), denied))
    out.push_back("run this as a user who may read all of it; nothing is known of what cannot be read");
  if (std::any_of(result.differences.begin(), result.differences.end(), [](const Difference& difference) {
        return difference.kind == Kind::unreadable && !difference.denied;
      }))
    out.push_back("what cannot be read may be on a failing disk: look at the kernel's log");
  if (has(result, {Kind::link}))
    out.push_back(
        in_snapshot(options.root)
            ? fmt::format("these are links into a Hugging Face cache: turn them into files with cp -rlL {} "
                          "DIR (hard links, which take no space), and verify with --root DIR",
                          shell_quoted(real_path(options.root)))
            : "links are never followed: verify the directory that holds the files themselves, or a copy "
              "made with cp -rL");
  if (has(result, {Kind::extra})) out.push_back("remove what is extra, or accept it with --allow-extra");
  if (has(result, {Kind::listing})) out.push_back("upload what differs in the repository again");
  if (has(result, {Kind::identity}))
    out.push_back(
        fmt::format("only the identity differs; the data were compared with the manifest nevertheless: serve "
                    "with VLLM_MOE_W2_CKPT_ID={}, or change it with verify-ckpt-id rekey --from {} --to {}",
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
                (result.bytes_before == 0
                     ? ""
                     : fmt::format(", {} found good by an earlier run", exact_size(result.bytes_before)));
  if (result.ok())
    return out + fmt::format("ok: {} files are what the manifest says ({})\n", result.files, read);
  const std::size_t all = result.differences.size(),
                    extra = static_cast<std::size_t>(
                        std::count_if(result.differences.begin(), result.differences.end(),
                                      [](const auto&difference) { return difference.kind == Kind::extra; }));
  if (extra != all) out += fmt::format("{} differences{}", all - extra, extra == 0 ? "" : " and ");
  if (extra != 0) out += fmt::format("{} extra files{}", extra, extra == all ? " and no differences" : "");
  out += fmt::format(", {} files compared ({})\n", result.files, read);
  for (const std::string& line : advice(manifest, result, options))
    out += fmt::format("to do: {}\n", printable(line));
  return out;
}

Json to_json(const Manifest& manifest, const Verification& result, const VerifyOptions& options) {
  // Paths of a foreign list may not be UTF-8, but a JSON document must be.
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
