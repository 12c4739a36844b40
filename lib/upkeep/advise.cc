#include "upkeep/advise.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/file.h"
#include "base/file_status.h"
#include "base/text.h"
#include "chunks/chunk_names.h"
#include "chunks/pack.h"
#include "format/pack.h"
#include "format/planescache.h"
#include "verify/other_identity.h"

namespace planesmith {
namespace {

using Kind = Difference::Kind;

bool needs_checkpoint(const UnitReport& report) {
  if (!report.manifest || (!report.problem.empty() && report.known_id.empty())) return true;
  const std::vector<DerivedFile> derived = derived_files(*report.manifest);
  return std::any_of(
      report.result.differences.begin(), report.result.differences.end(), [&](const Difference& difference) {
        if (difference.denied || difference.kind == Kind::extra || difference.kind == Kind::owner)
          return false;
        const bool small = std::any_of(derived.begin(), derived.end(),
                                       [&](const DerivedFile& file) { return file.path == difference.path; });
        return !small && !(difference.blocks.empty() && !difference.strays.empty());
      });
}

// Whether there may be anything to repair. What a copy brings that takes a link's place is not known yet.
bool has_damage(const UnitReport& report) {
  return !report.problem.empty() ||
         std::any_of(report.result.differences.begin(), report.result.differences.end(),
                     [&](const Difference& d) {
                       return !d.denied && d.kind != Kind::extra && d.kind != Kind::owner &&
                              (d.kind != Kind::link || report.unit.kind != ManifestKind::tree);
                     });
}

bool only_digest_list(const UnitReport& report) {
  return std::all_of(
      report.result.differences.begin(), report.result.differences.end(), [&](const Difference& d) {
        return d.path ==
               chunks::digest_list_name(chunks::set_of_manifest(name_of(report.unit.manifest_path)));
      });
}

std::string set_name(const Unit& unit) {
  return chunks::set_of_manifest(name_of(unit.manifest_path));
}

// A unit of the right content under the wrong name: it gets the right one, or goes where that is taken.
std::string move_to(const Context& context, const Unit& unit, const std::string& proper_path) {
  if (unit.kind == ManifestKind::pack) {
    const std::string root = real_path(unit.root);
    const auto stem = [&](const std::string& pack) {
      return shell_quoted(format::stem_of_pack(join(root, pack)));
    };
    const std::string from = stem(name_of(unit.path)), to = stem(proper_path);
    if (exists(context.os, join(root, proper_path)))
      return fmt::format(
          "verify-ckpt-id verify {0}.pack && rm -f {1}.pack {1}.json {1}.lock {1}.pack.manifest.json "
          "{1}.pack.heat.json",
          to, from);
    return fmt::format(
        "for s in pack json lock pack.manifest.json pack.heat.json; do [ ! -e {0}.$s ] || mv "
        "-n {0}.$s {1}.$s; done",
        from, to);
  }
  const std::string from = real_path(unit.path), to = join(cache_root(unit), proper_path);
  const std::string tidy = fmt::format("rmdir --ignore-fail-on-non-empty {}", shell_quoted(parent_of(from)));
  if (exists(context.os, to))
    return fmt::format("verify-ckpt-id verify {} && rm -r {} && {}", shell_quoted(to), shell_quoted(from),
                       tidy);
  return fmt::format("mkdir -p {} && mv -T {} {} && {}", shell_quoted(parent_of(to)), shell_quoted(from),
                     shell_quoted(to), tidy);
}

}  // namespace

std::string decision(const Context& context, const Unit& unit, const Difference& difference) {
  const std::string root = real_path(unit.root), path = join(root, difference.path);
  switch (difference.kind) {
    case Kind::owner:
      return fmt::format("chown --reference={} {}", shell_quoted(root), shell_quoted(path));
    case Kind::link:
      // A copy in its place, as large as what it leads to.
      if (exists(context.os, path) && S_ISREG(status(context.os, path).st_mode))
        return fmt::format("cp {0} {1}.new && mv -T {1}.new {1}", shell_quoted(real_path(path)),
                           shell_quoted(path));
      return fmt::format("rm {}", shell_quoted(path));
    case Kind::kind: {
      // What a rank's directory holds is all in its manifest, so that it goes beside it.
      const std::string aside = unit.kind == ManifestKind::planescache
                                    ? fmt::format("{}.{}.moved", root, name_of(difference.path))
                                    : path + ".moved";
      return fmt::format("mv -n -T {} {}", shell_quoted(path), shell_quoted(aside));
    }
    default:
      return "";
  }
}

std::string build_again(const Unit& unit) {
  if (unit.kind == ManifestKind::planescache) {
    const std::string name = name_of(real_path(unit.path));  // tp<W>-rank<r>, which its kind says
    const std::size_t dash = name.find('-');
    return fmt::format("build-planescache CHECKPOINT --out {} --world {} --rank {} --ckpt-id ID",
                       shell_quoted(cache_root(unit)), name.substr(2, dash - 2), name.substr(dash + 5));
  }
  const std::string stem = format::stem_of_pack(name_of(unit.path));
  const std::optional<format::PackStem> name = format::parse_pack_stem(stem);
  return fmt::format("build-fp4-packs CHECKPOINT --out {} --tiers {} --world {} --rank {} --ckpt-id ID",
                     shell_quoted(real_path(unit.root)), name ? name->tag : "TIER", name ? name->world : 1,
                     name ? name->rank : 0);
}

bool manifest_denied(const Context& context, const Unit& unit) {
  return exists(context.os, unit.manifest_path) && !accessible(context.os, unit.manifest_path, R_OK);
}

void advise(const Context& context, UnitReport& report) {
  const Unit& unit = report.unit;
  const std::string path = shell_quoted(real_path(exists(context.os, unit.path) ? unit.path : unit.root));
  const std::vector<Difference>& differences = report.result.differences;
  if (!report.proper_path.empty()) {
    report.to_do.push_back(move_to(context, unit, report.proper_path));
    return;
  }
  constexpr const char* kMayRead =
      "run this as a user who may read all of it; nothing is known of what cannot be read";
  if (manifest_denied(context, unit)) {
    report.to_do.push_back(kMayRead);
    return;
  }
  const bool built = unit.kind == ManifestKind::planescache || unit.kind == ManifestKind::pack;
  if (built && !report.manifest && name_by_text(context, unit).first.empty()) {
    report.to_do.push_back(build_again(unit));
    return;
  }
  // First what stands in a file's way.
  if (unit.kind != ManifestKind::tree)
    for (const Difference& difference : differences)
      if (difference.kind == Kind::link || difference.kind == Kind::kind)
        report.to_do.push_back(decision(context, unit, difference));
  if (has_damage(report)) {
    const std::string target = unit.kind == ManifestKind::pack ? shell_quoted(real_path(unit.root)) : path;
    switch (unit.kind) {
      case ManifestKind::planescache:
      case ManifestKind::pack:
        report.to_do.push_back(fmt::format("verify-ckpt-id repair {}{}", target,
                                           needs_checkpoint(report) ? " --checkpoint CHECKPOINT" : ""));
        break;
      case ManifestKind::chunks:
        if (report.manifest)
          report.to_do.push_back(fmt::format("verify-ckpt-id repair {}{}", target,
                                             only_digest_list(report) ? "" : " --source SOURCE"));
        else
          report.to_do.push_back(fmt::format("pack-chunks pack SOURCE --name {} --out {} --force",
                                             shell_quoted(set_name(unit)), target));
        break;
      case ManifestKind::tree:
        report.to_do.push_back("copy or download what differs again, then verify again");
        break;
    }
  }
  const auto any = [&](auto is) { return std::any_of(differences.begin(), differences.end(), is); };
  for (const Difference& difference : differences)
    if (difference.kind == Kind::owner) report.to_do.push_back(decision(context, unit, difference));
  if (any([](const Difference& difference) { return difference.denied; })) report.to_do.push_back(kMayRead);
  if (any([](const Difference& difference) { return difference.kind == Kind::extra; }))
    report.to_do.push_back("remove what is extra, or accept it with --allow-extra");
}

}  // namespace planesmith
