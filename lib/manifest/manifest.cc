#include "manifest/manifest.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"

namespace planesmith {
namespace {

using Ordered = nlohmann::ordered_json;

const CacheFacts& facts_of(const Manifest& manifest) {
  return manifest.facts.value();
}

format::RankShape shape_of(const CacheFacts& facts) {
  return format::rank_shape(facts.geometry, facts.world);
}

format::PackSpec spec_of(const CacheFacts& facts) {
  return format::pack_spec(facts.tier.value(), facts.geometry, shape_of(facts), facts.ckpt_id,
                           facts.zero_mode);
}

Ordered head(const Manifest& manifest) {
  Ordered out = {{"version", 1}, {"kind", name(manifest.kind)}, {"tool", manifest.tool}};
  if (manifest.facts) {
    const CacheFacts& facts = *manifest.facts;
    const format::Geometry& geometry = facts.geometry;
    out["ckpt_id"] = facts.ckpt_id;
    out["quantizer_abi"] = format::kQuantizerAbi;
    out["zero_mode"] = name(facts.zero_mode);
    out["world"] = facts.world;
    out["rank"] = facts.rank;
    if (facts.fp4) out["fp4"] = name(*facts.fp4);
    if (facts.tier) out["tier"] = name(*facts.tier);
    Ordered& written = out["geometry"] = {{"layers", geometry.layers},
                                          {"experts", geometry.experts},
                                          {"hidden", geometry.hidden},
                                          {"intermediate", geometry.intermediate}};
    if (manifest.kind == ManifestKind::pack && geometry.drafts != 0) written["drafts"] = geometry.drafts;
    out["layers"] = facts.layers;
    if (facts.id_by_download) out["id_by_download"] = true;
    if (!facts.source.empty()) out["source"] = facts.source;
    if (facts.family) out["family"] = name(*facts.family);
  }
  if (manifest.kind == ManifestKind::tree) out["covers"] = manifest.covers;
  if (manifest.kind == ManifestKind::chunks) out["chunks"] = manifest.chunks;
  return out;
}

Ordered file_object(const FileEntry& file) {
  Ordered out = {{"path", file.path}};
  if (file.link_target) {
    out["link"] = *file.link_target;
    return out;
  }
  out["size"] = file.size;
  if (!file.sha256.empty()) out["sha256"] = file.sha256;
  if (file.xxh3) {
    out["xxh3"] = file.xxh3->hex();
    Ordered& blocks = out["blocks"] = Ordered::array();
    for (const Xxh3& block : file.blocks) blocks.push_back(block.hex());
  }
  return out;
}

// An object on one line, except that each item of a list has its own line.
std::string with_lists_in_lines(const Ordered& object) {
  std::string out = "{";
  for (const auto& [key, value] : object.items()) {
    out += fmt::format("{}{}: ", out.size() == 1 ? "" : ", ", spaced(Ordered(key)));
    if (!value.is_array()) {
      out += spaced(value);
      continue;
    }
    const char* separator = "[\n  ";
    for (const Ordered& item : value) {
      out += separator + spaced(item);
      separator = ",\n  ";
    }
    out += value.empty() ? "[]" : "]";
  }
  return out += "}";
}

}  // namespace

std::string_view name(ManifestKind kind) {
  switch (kind) {
    case ManifestKind::planescache:
      return "planescache";
    case ManifestKind::pack:
      return "pack";
    case ManifestKind::tree:
      return "tree";
    case ManifestKind::chunks:
      return "chunks";
  }
  return "";
}

std::vector<DerivedFile> derived_files(const Manifest& manifest) {
  if (manifest.kind == ManifestKind::planescache) {
    const CacheFacts& facts = facts_of(manifest);
    return {{std::string(format::kMetaName),
             format::meta_json({facts.ckpt_id, facts.world, facts.rank, facts.zero_mode,
                                facts.fp4 == format::Fp4Tier::quintal})}};
  }
  if (manifest.kind == ManifestKind::pack) {
    const CacheFacts& facts = facts_of(manifest);
    const format::PackSpec spec = spec_of(facts);
    return {{format::sidecar_file(format::pack_stem(spec, facts.rank, facts.world)),
             format::sidecar_json(spec, facts.layers)}};
  }
  return {};
}

std::vector<BlockRange> block_ranges(const Manifest& manifest, const FileEntry& file) {
  std::vector<BlockRange> ranges;
  switch (manifest.kind) {
    case ManifestKind::planescache: {
      const std::uint64_t experts = facts_of(manifest).geometry.experts, section = file.size / experts;
      for (std::uint64_t e = 0; e < experts; ++e) ranges.push_back({e * section, section});
      break;
    }
    case ManifestKind::pack: {
      const CacheFacts& facts = facts_of(manifest);
      const format::RankShape shape = shape_of(facts);
      const format::PackSpec spec = spec_of(facts);
      const std::vector<format::Section> sections = format::slot_sections(spec.tier);
      for (const std::uint64_t key : facts.layers) {
        for (std::uint64_t e = 0; e < spec.experts; ++e) {
          std::uint64_t offset = spec.row_offset(key, e);
          for (const format::Section section : sections) {
            ranges.push_back({offset, format::section_bytes(section, shape)});
            offset += ranges.back().size;
          }
        }
      }
      break;
    }
    case ManifestKind::tree:
    case ManifestKind::chunks:
      for (std::uint64_t offset = 0; offset < file.size; offset += kTreeBlock)
        ranges.push_back({offset, std::min(kTreeBlock, file.size - offset)});
      break;
  }
  return ranges;
}

std::string block_name(const Manifest& manifest, const FileEntry&, std::size_t block) {
  if (manifest.kind == ManifestKind::planescache) return fmt::format("expert {}", block);
  if (manifest.kind == ManifestKind::pack) {
    const CacheFacts& facts = facts_of(manifest);
    const std::vector<format::Section> sections = format::slot_sections(facts.tier.value());
    const std::size_t row = block / sections.size(), experts = facts.geometry.experts;
    return fmt::format("layer key {}, expert {}, {}", facts.layers.at(row / experts), row % experts,
                       format::name(sections[block % sections.size()]));
  }
  return fmt::format("block {}", block);
}

std::string digest_line(std::string_view text) {
  return fmt::format(",\n \"digest\": \"{}\"", Xxh3::of(bytes_of(text)).hex());
}

std::string to_json(const Manifest& manifest) {
  std::string out = "{\n";
  const Ordered first = head(manifest);
  for (const auto& [key, value] : first.items())
    out += fmt::format(" \"{}\": {},\n", key, key == "chunks" ? with_lists_in_lines(value) : spaced(value));
  out += " \"files\": [";
  // One line for each file: readable, and `grep` finds everything about it.
  const char* separator = "\n";
  for (const FileEntry& file : manifest.files) {
    out += fmt::format("{}  {}", separator, spaced(file_object(file)));
    separator = ",\n";
  }
  out += manifest.files.empty() ? "]" : "\n ]";
  return out + digest_line(out) + "\n}\n";
}

bool is_inner_path(std::string_view path) {
  if (path.find('\0') != path.npos) return false;
  for (;;) {
    const std::size_t slash = path.find('/');
    const std::string_view component = path.substr(0, slash);
    if (component.empty() || component == "." || component == "..") return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
}

void count_drafts(CacheFacts& facts) {
  const std::uint64_t end = facts.layers.empty() ? 0 : facts.layers.back() + 1;
  facts.geometry.drafts = end > facts.geometry.layers ? end - facts.geometry.layers : 0;
}

Manifest read_manifest(Os& os, const std::string& path, std::uint64_t memory) {
  return parse_manifest(read_text(os, path, manifest_text_limit(memory)), path, memory);
}

}  // namespace planesmith
