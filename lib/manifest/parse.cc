// Reads a manifest strictly: it is untrusted, and decides which files are opened.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "manifest/fields.h"
#include "manifest/manifest.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kMaxSize = std::uint64_t{1} << 62;  // of a file

// A value of an enumeration by its name. Not parse_*(), whose usage Errors are about options.
template <typename Enum, std::size_t N>
Enum one_of(Fields& fields, const char* key, const Enum (&values)[N]) {
  const std::string text = fields.text(key);
  for (const Enum value : values)
    if (name(value) == text) return value;
  fields.refuse(fmt::format("\"{}\" is '{}', which is not a known value", key, text));
}

CacheFacts read_facts(Fields& fields, const std::string& path, ManifestKind kind) {
  CacheFacts facts;
  facts.ckpt_id = fields.text("ckpt_id");
  if (const std::string abi = fields.text("quantizer_abi"); abi != format::kQuantizerAbi)
    fields.refuse(
        fmt::format("is for quantizer ABI '{}', this program knows '{}'", abi, format::kQuantizerAbi));
  facts.zero_mode = one_of(fields, "zero_mode", format::kZeroModes);
  facts.world = fields.number("world", 1, format::kMostWorld);
  facts.rank = fields.number("rank", 0, facts.world - 1);
  if (kind == ManifestKind::planescache) facts.fp4 = one_of(fields, "fp4", format::kFp4Tiers);
  if (kind == ManifestKind::pack) facts.tier = one_of(fields, "tier", format::kTiers);

  Fields geometry(fields.need("geometry"), path, "\"geometry\"");
  facts.geometry = {geometry.number("layers", 1, format::kMostLayers),
                    geometry.number("experts", 1, format::kMostExperts),
                    geometry.number("hidden", 1, format::kMostWidth),
                    geometry.number("intermediate", 1, format::kMostWidth)};
  if (kind == ManifestKind::pack && geometry.find("drafts") != nullptr)
    facts.geometry.drafts = geometry.number("drafts", 1, format::kMostDrafts);
  geometry.done();
  try {
    format::rank_shape(facts.geometry, facts.world);
  } catch (const Error& error) {
    fields.refuse("has an impossible geometry: " + error.reason());
  }

  if (const Json* unread = fields.find("id_by_download")) {
    if (*unread != true) fields.refuse("\"id_by_download\" is not true");
    facts.id_by_download = true;
  }
  // A pack has room for one layer more than the model and its drafters.
  const std::uint64_t end =
      facts.geometry.layers + (kind == ManifestKind::pack ? facts.geometry.drafts + 1 : format::kMostDrafts);
  for (const Json& layer : fields.list("layers")) {
    if (!layer.is_number_unsigned() || layer >= end ||
        (!facts.layers.empty() && layer <= facts.layers.back()))
      fields.refuse(fmt::format("\"layers\" is not an ascending list of numbers below {}", end));
    facts.layers.push_back(layer.get<std::uint64_t>());
  }
  if (kind == ManifestKind::planescache) count_drafts(facts);
  if (fields.find("source") != nullptr) {
    facts.source = fields.text("source");
    if (!is_hex(facts.source, 64)) fields.refuse("\"source\" is not 64 lowercase hex digits");
  }
  if (fields.find("family") != nullptr) {
    facts.family = family_named(fields.text("family"));
    if (!facts.family) fields.refuse("\"family\" is not a known family");
  }
  return facts;
}

FileEntry read_file(const Json& object, const std::string& path, std::size_t position) {
  FileEntry file;
  std::string where = fmt::format("file {} of the list", position);
  if (object.is_object() && object.contains("path") && object["path"].is_string())
    where = fmt::format("'{}'", object["path"].get<std::string>());
  Fields fields(object, path, where);
  file.path = fields.text("path");
  if (!is_inner_path(file.path)) fields.refuse("is not a path below the manifest's directory");
  if (fields.find("link") != nullptr) {
    file.link_target = fields.text("link");
    if (file.link_target->empty() || file.link_target->find('\0') != std::string::npos)
      fields.refuse("has an impossible link target");
    fields.done();
    return file;
  }
  file.size = fields.number("size", 0, kMaxSize);
  if (fields.find("sha256") != nullptr) {
    file.sha256 = fields.text("sha256");
    if (!is_hex(file.sha256, 64)) fields.refuse("\"sha256\" is not 64 lowercase hex digits");
  }
  if (fields.find("xxh3") != nullptr || fields.find("blocks") != nullptr) {
    file.xxh3 = fields.digest("xxh3");
    file.blocks = fields.digests("blocks");
    if (combine(file.blocks) != *file.xxh3)
      fields.refuse(fmt::format("\"xxh3\" is {}, its block digests give {}", file.xxh3->hex(),
                                combine(file.blocks).hex()));
  }
  fields.done();
  return file;
}

// The files that follow from the facts, with their sizes and numbers of blocks;
// those numbers are untrusted and allocate nothing.
struct Expected {
  std::string path;
  std::uint64_t size, blocks;
};

std::vector<Expected> expected_files(const Manifest& manifest, const Fields& fields) {
  const CacheFacts& facts = *manifest.facts;
  const format::RankShape shape = format::rank_shape(facts.geometry, facts.world);
  const std::uint64_t experts = facts.geometry.experts;
  std::vector<Expected> expected;
  const auto size_of = [&](std::uint64_t count, std::uint64_t each) {
    std::uint64_t size = 0;
    if (__builtin_mul_overflow(count, each, &size) || size > kMaxSize)
      fields.refuse("has an impossible geometry");
    return size;
  };
  if (manifest.kind == ManifestKind::planescache) {
    for (const std::uint64_t layer : facts.layers)
      for (const format::Part& part : format::cache_parts(*facts.fp4))
        expected.push_back({format::part_file(layer, part.name),
                            size_of(experts, format::section_bytes(part.section, shape)), experts});
  } else {
    const format::PackSpec spec =
        format::pack_spec(*facts.tier, facts.geometry, shape, facts.ckpt_id, facts.zero_mode);
    expected.push_back({format::pack_file(format::pack_stem(spec, facts.rank, facts.world)),
                        size_of(spec.n_layers * experts, spec.stride),
                        facts.layers.size() * experts * format::slot_sections(spec.tier).size()});
  }
  std::sort(expected.begin(), expected.end(),
            [](const Expected& a, const Expected& b) { return a.path < b.path; });
  return expected;
}

// The files, sorted by path, must be exactly those that follow from the facts.
void check_against_facts(const Manifest& manifest, const Fields& fields) {
  const std::vector<Expected> expected = expected_files(manifest, fields);
  std::size_t at = 0;
  for (const FileEntry& file : manifest.files) {
    if (at == expected.size() || file.path < expected[at].path)
      fields.refuse(
          fmt::format("lists '{}', which is not part of such a {}", file.path, name(manifest.kind)));
    if (file.path > expected[at].path) break;
    if (file.link_target) fields.refuse(fmt::format("lists '{}' as a link", file.path));
    if (!file.xxh3) fields.refuse(fmt::format("gives '{}' no \"xxh3\" and \"blocks\"", file.path));
    if (file.size != expected[at].size)
      fields.refuse(fmt::format("gives '{}' {} bytes; its geometry makes that {}", file.path, file.size,
                                expected[at].size));
    if (file.blocks.size() != expected[at].blocks)
      fields.refuse(fmt::format("gives '{}' {} block digests; its geometry makes that {}", file.path,
                                file.blocks.size(), expected[at].blocks));
    ++at;
  }
  if (at != expected.size()) fields.refuse(fmt::format("does not list '{}'", expected[at].path));
}

void check_blocks(const Manifest& manifest, const Fields& fields) {
  for (const FileEntry& file : manifest.files) {
    const std::uint64_t blocks = (file.size + kTreeBlock - 1) / kTreeBlock;
    if (file.xxh3 && file.blocks.size() != blocks)
      fields.refuse(fmt::format("gives '{}' {} block digests; {} bytes make {} blocks", file.path,
                                file.blocks.size(), file.size, blocks));
    if (manifest.kind == ManifestKind::chunks && file.link_target)
      fields.refuse(fmt::format("lists '{}' as a link", file.path));
  }
}

}  // namespace

Manifest parse_manifest(std::string_view text, const std::string& path, std::uint64_t memory) {
  constexpr std::size_t kDepth = 64;
  const Json document = parse_json(text, path, kDepth, memory / 5 * 2);
  Fields fields(document, path, "it");
  Manifest manifest;
  fields.number("version", 1, 1);
  constexpr ManifestKind kKinds[] = {ManifestKind::planescache, ManifestKind::pack, ManifestKind::tree,
                                     ManifestKind::chunks};
  manifest.kind = one_of(fields, "kind", kKinds);
  manifest.tool = fields.text("tool");
  const bool has_facts = manifest.kind == ManifestKind::planescache || manifest.kind == ManifestKind::pack;
  if (has_facts) manifest.facts = read_facts(fields, path, manifest.kind);

  for (const Json& object : fields.list("files"))
    manifest.files.push_back(read_file(object, path, manifest.files.size()));
  const auto by_path = [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; };
  std::sort(manifest.files.begin(), manifest.files.end(), by_path);
  for (std::size_t i = 1; i < manifest.files.size(); ++i)
    if (manifest.files[i].path == manifest.files[i - 1].path)
      fields.refuse(fmt::format("lists '{}' twice", manifest.files[i].path));

  if (manifest.kind == ManifestKind::tree) {
    for (const Json& directory : fields.list("covers")) {
      const std::string text_value = directory.is_string() ? directory.get<std::string>() : "";
      if (text_value != "." && !is_inner_path(text_value))
        fields.refuse("\"covers\" has a path that is not below the manifest's directory");
      manifest.covers.push_back(text_value);
    }
  }
  if (manifest.kind == ManifestKind::chunks) {
    manifest.chunks = fields.need("chunks");
    if (!manifest.chunks.is_object()) fields.refuse("\"chunks\" is not an object");
  }
  const bool has_digest = fields.find("digest") != nullptr;
  fields.done();
  if (has_facts)
    check_against_facts(manifest, fields);
  else
    check_blocks(manifest, fields);
  if (has_digest) {
    const std::size_t end = text.rfind(",\n \"digest\": \"");
    if (end == text.npos || text.substr(end) != digest_line(text.substr(0, end)) + "\n}\n")
      fields.refuse("was changed after it was written: its own digest differs");
  }
  return manifest;
}

}  // namespace planesmith
