#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "chunks/chunk_names.h"
#include "chunks/pack.h"
#include "format/pack.h"
#include "format/planescache.h"
#include "sink/records.h"
#include "upkeep/advise.h"
#include "upkeep/units.h"
#include "verify/other_identity.h"

namespace planesmith {
namespace {

using Kind = Difference::Kind;

constexpr std::uint64_t kMostText = 16 << 20;  // of a meta.json or sidecar

// The name that follows from the unit's manifest: "v2/<key>/tp<W>-rank<r>" or "<stem>.pack".
std::string proper_name(const Manifest& manifest) {
  const CacheFacts& facts = *manifest.facts;
  if (manifest.kind == ManifestKind::planescache)
    return format::cache_directory(
        {facts.ckpt_id, facts.world, facts.rank, facts.zero_mode, facts.fp4 == format::Fp4Tier::quintal});
  return manifest.files.at(0).path;
}

// The unit's actual name, in the same form.
std::string name_there(const Unit& unit) {
  const std::string real = real_path(unit.kind == ManifestKind::pack ? parent_of(unit.path) : unit.path);
  if (unit.kind == ManifestKind::pack) return name_of(unit.path);
  const std::string key = parent_of(real);
  return fmt::format("{}/{}/{}", name_of(parent_of(key)), name_of(key), name_of(real));
}

}  // namespace

std::pair<std::string, std::string> name_by_text(const Context& context, const Unit& unit) {
  try {
    if (unit.kind == ManifestKind::planescache) {
      const std::string path = join(unit.path, format::kMetaName);
      const format::CacheMeta meta = format::parse_meta(read_text(context.os, path, kMostText), path);
      return {format::cache_directory(meta), meta.ckpt_id};
    }
    const std::string path = format::sidecar_file(format::stem_of_pack(unit.path));
    const format::Sidecar sidecar = format::parse_sidecar(read_text(context.os, path, kMostText), path);
    const std::string stem = format::stem_of_pack(name_of(unit.path));  // only the name has world and rank
    const std::optional<format::PackStem> name = format::parse_pack_stem(stem);
    if (!name) return {};
    return {format::pack_file(format::pack_stem(sidecar.spec, name->rank, name->world)),
            sidecar.spec.ckpt_id};
  } catch (const Error&) {
    return {};
  }
}

namespace {

// Compares name, text (meta.json or sidecar) and manifest: two that agree outvote the third.
void judge_place(const Context& context, UnitReport& report) {
  const std::string there = name_there(report.unit), proper = proper_name(*report.manifest);
  if (there == proper) return;
  const auto [by_text, id] = name_by_text(context, report.unit);
  const std::string text = report.unit.kind == ManifestKind::pack ? "sidecar" : "meta.json";
  if (by_text == there) {
    report.problem =
        fmt::format("its manifest is of {}, but name and {} agree that it is {}", proper, text, there);
    if (proper_name(under_identity(*report.manifest, id)) == there) report.known_id = id;
  } else if (by_text == proper) {
    report.problem = fmt::format(
        "has the wrong name: by its manifest and {} it is {}, where the engine looks for it", text, proper);
    report.proper_path = proper;
  } else {
    report.problem = fmt::format("name, {} and manifest contradict each other: {}, {} and {}", text, there,
                                 by_text.empty() ? "damaged" : by_text, proper);
  }
}

// Where an unfinished build keeps its records.
std::string records_of(const Unit& unit) {
  if (unit.kind == ManifestKind::planescache) return join(unit.path, format::kCacheRecords);
  return join(unit.root, format::pack_records(format::stem_of_pack(name_of(unit.path))));
}

// Compares SHA256SUMS.NAME with the manifest.
void check_digest_list(const Context& context, UnitReport& report) {
  const std::vector<FileEntry>& parts = report.manifest->files;
  if (std::any_of(parts.begin(), parts.end(), [](const FileEntry& part) { return part.sha256.empty(); }))
    return;
  const std::string set = chunks::set_of_manifest(name_of(report.unit.manifest_path)),
                    name = chunks::digest_list_name(set), path = join(report.unit.root, name);
  if (!exists(context.os, path)) {
    report.result.notes.push_back(name + " is missing; sha256sum -c cannot be used");
    return;
  }
  if (read_text(context.os, path, kMostManifestBytes) != chunks::digest_list(parts))
    report.result.differences.push_back(
        {Kind::content, name, "is not the list of the parts' SHA-256 digests that the manifest has"});
}

// `cat NAME.tar.zst.part.*` would take them for parts.
void find_stray_parts(const Context& context, UnitReport& report) {
  const std::string set = chunks::set_of_manifest(name_of(report.unit.manifest_path));
  const std::vector<FileEntry>& parts = report.manifest->files;
  for (const std::string& name : list_dir(context.os, report.unit.root)) {
    if (std::any_of(parts.begin(), parts.end(), [&](const FileEntry& part) { return part.path == name; }))
      continue;
    try {
      if (const auto part = chunks::parse_part_name(name); part && part->name == set)
        report.result.differences.push_back({Kind::extra, name, "is not in the manifest"});
    } catch (const Error&) {  // no name of a part
    }
  }
}

}  // namespace

UnitReport verify_unit(const Context& context, const Unit& unit, VerifyOptions options) {
  UnitReport report;
  report.unit = unit;
  options.root = unit.root;
  options.manifest_path = unit.manifest_path;
  options.in_place = true;
  try {
    if (!exists(context.os, unit.manifest_path)) {
      report.problem = fmt::format("{} is missing: {}", name_of(unit.manifest_path),
                                   exists(context.os, records_of(unit))
                                       ? "its build has not finished; the same command continues it"
                                       : "nothing records what the content should be");
    } else {
      report.manifest = read_manifest(context.os, unit.manifest_path, context.memory);
      if (report.manifest->facts) {
        if (report.manifest->kind != unit.kind)
          throw Error(unit.manifest_path, fmt::format("is of a {}", name(report.manifest->kind)));
        judge_place(context, report);
      }
    }
  } catch (const Error& error) {
    if (is_stop(error.code())) throw;
    report.manifest.reset();
    report.problem = fmt::format("{} cannot be used: {}", name_of(unit.manifest_path), error.reason());
  }
  if (report.manifest) {
    // Under a wrong name no file would be found where the manifest says.
    Manifest local = *report.manifest;
    if (!report.known_id.empty()) local = under_identity(std::move(local), report.known_id);
    if (report.problem.empty() || !report.known_id.empty()) {
      report.result = verify_files(context, local, to_json(local), options);
      if (local.kind == ManifestKind::chunks) check_digest_list(context, report);
      if (local.kind == ManifestKind::chunks && !options.allow_extra) find_stray_parts(context, report);
      if (!report.known_id.empty()) report.manifest = std::move(local);
    }
  }
  advise(context, report);
  return report;
}

std::string to_text(const UnitReport& report, const VerifyOptions& options) {
  std::string out = fmt::format("{} {}: {}\n", name(report.unit.kind), printable(report.unit.path),
                                report.ok() ? "ok" : "NOT OK");
  if (!report.problem.empty()) out += fmt::format("  manifest   {}\n", printable(report.problem));
  for (const Difference& difference : report.result.differences)
    out += fmt::format("  {:<11}{}: {}\n", name(difference.kind), printable(difference.path),
                       printable(difference.what));
  for (const std::string& note : report.result.notes) out += fmt::format("  note: {}\n", printable(note));
  for (const std::string& line : report.to_do) out += fmt::format("  to do: {}\n", printable(line));
  if (report.ok())
    out += fmt::format(
        "  {} files, {}\n", report.result.files,
        options.quick ? "names, kinds and sizes only" : exact_size(report.result.bytes) + " read");
  return out;
}

Json to_json(const UnitReport& report, const VerifyOptions&) {
  Json differences = Json::array(), notes = Json::array(), to_do = Json::array();
  for (const Difference& difference : report.result.differences) {
    differences.push_back({{"kind", name(difference.kind)},
                           {"path", printable(difference.path)},
                           {"what", printable(difference.what)}});
    if (!difference.blocks.empty()) differences.back()["blocks"] = difference.blocks;
  }
  for (const std::string& note : report.result.notes) notes.push_back(printable(note));
  for (const std::string& line : report.to_do) to_do.push_back(printable(line));
  Json out = {{"ok", report.ok()},
              {"kind", name(report.unit.kind)},
              {"path", printable(report.unit.path)},
              {"manifest", printable(report.unit.manifest_path)},
              {"files", report.result.files},
              {"bytes", report.result.bytes},
              {"bytes_before", report.result.bytes_before},
              {"differences", differences},
              {"notes", notes},
              {"to_do", to_do}};
  if (!report.problem.empty()) out["problem"] = printable(report.problem);
  return out;
}

}  // namespace planesmith
