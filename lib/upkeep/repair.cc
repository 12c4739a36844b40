#include "upkeep/repair.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/dir.h"
#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/fingerprint.h"
#include "chunks/chunk_names.h"
#include "chunks/chunk_set.h"
#include "chunks/pack.h"
#include "format/pack.h"
#include "format/planescache.h"
#include "manifest/known_model.h"
#include "pipeline/build.h"
#include "plan/describe.h"
#include "sink/clear_gaps.h"
#include "store/probe.h"
#include "upkeep/advise.h"
#include "upkeep/next_check.h"
#include "verify/sample.h"

namespace planesmith {
namespace {

using Kind = Difference::Kind;

// The checkpoint, opened when the first unit needs it.
struct Source {
  Checkpoint checkpoint;
  Model model;
  std::string fingerprint;
};

// What identifies a planes cache or pack, as far as it is known.
struct Facts {
  std::string ckpt_id;
  std::uint64_t world = 1, rank = 0;
  format::ZeroMode zero_mode = format::ZeroMode::automatic;
  std::optional<format::Fp4Tier> fp4;
  std::optional<format::Tier> tier;
  std::optional<std::uint64_t> drafts{};  // none: taken from the store
};

class Repair {
 public:
  Repair(const Context& context, const RepairRequest& request, Backend& backend)
      : context_(context), request_(request), backend_(backend) {}

  RepairReport run() {
    RepairReport out;
    std::set<std::string> seen;
    for (const std::string& path : request_.paths)
      for (const Unit& unit : find_units(context_, path))
        if (seen.insert(real_path(parent_of(unit.manifest_path)) + "/" + name_of(unit.manifest_path)).second)
          out.items.push_back(one(path, unit));
    if (!request_.dry_run &&
        std::any_of(out.items.begin(), out.items.end(), [](const auto& item) { return !item.done.empty(); }))
      out.next = next_check_.command(request_.paths);
    return out;
  }

 private:
  // Opens the directory of a unit's files without following links below the path that the user named.
  static Dir directory_of(Os& os, const std::string& named, const Unit& unit) {
    if (!S_ISDIR(status(os, named).st_mode)) return Dir::open(os, parent_of(named));
    const std::size_t end = named.find_last_not_of('/') + 1;
    const std::string below =
        unit.root.size() > end ? unit.root.substr(unit.root.find_first_not_of('/', end)) : ".";
    return Dir::open(os, named).open_dir(below);
  }

  RepairReport::Item one(const std::string& named, const Unit& unit) {
    directory_ = directory_of(context_.os, named, unit);
    RepairReport::Item item;
    item.path = unit.path;
    UnitReport report = verify_unit(context_, unit, {.allow_extra = true});
    if (!report.problem.empty()) item.found.push_back(report.problem);
    for (const Difference& difference : report.result.differences)
      item.found.push_back(fmt::format("{}: {}", difference.path, difference.what));
    if (report.ok()) {
      item.good = true;
      next_check_.add(report);
      return item;
    }
    switch (unit.kind) {
      case ManifestKind::planescache:
      case ManifestKind::pack:
        cache_or_pack(report, item);
        break;
      case ManifestKind::chunks:
        chunks(report, item);
        break;
      case ManifestKind::tree:
        item.left = report.to_do;
        break;
    }
    if (request_.dry_run || item.done.empty()) return item;
    const UnitReport after = verify_unit(context_, unit, {.allow_extra = true});
    item.good = after.ok();
    next_check_.add(after);
    for (const Difference& difference : after.result.differences)
      item.left.push_back(fmt::format("{}: {}", difference.path, difference.what));
    if (!after.problem.empty()) item.left.push_back(after.problem);
    return item;
  }

  void cache_or_pack(UnitReport& report, RepairReport::Item& item) {
    if (!report.proper_path.empty()) {
      item.left = report.to_do;
      return;
    }
    if (manifest_denied(context_, report.unit)) {
      item.left.push_back("run this as a user who may read the manifest");
      return;
    }
    for (const Difference& difference : report.result.differences) {
      if (difference.kind != Kind::size || report.unit.kind != ManifestKind::pack) continue;
      const std::uint64_t bytes = report.manifest->files.front().size;
      act(item, fmt::format("set the size of {} to {} bytes", difference.path, bytes), [&] {
        File file = directory_->open_write(name_of(report.unit.path));
        file.truncate(bytes);
        file.sync();
      });
      if (request_.dry_run) break;
      report = verify_unit(context_, report.unit, {.allow_extra = true});  // which rows that leaves damaged
      break;
    }
    std::set<std::uint64_t> layers;  // indices
    bool all = !report.manifest || (!report.problem.empty() && report.known_id.empty());
    if (!all) {
      if (!report.known_id.empty())
        act(item, fmt::format("write {} again", report.unit.manifest_path), [&] {
          directory_->write_atomically(name_of(report.unit.manifest_path), to_json(*report.manifest));
        });
      layers = damaged_layers(report);
      small_files(report, layers, item);
      for (const Difference& difference : report.result.differences)
        if (difference.denied)
          item.left.push_back(
              fmt::format("{}: {}; run this as a user who may read it", difference.path, difference.what));
        else if (const std::string command = decision(context_, report.unit, difference); !command.empty())
          item.left.push_back(fmt::format("{}: {}; repair does not touch it, you have to decide: {}",
                                          difference.path, difference.what, command));
      if (layers.empty()) return;
    }
    std::optional<Facts> facts = facts_of(report);
    if (!facts) {
      item.left.push_back(
          fmt::format("neither a manifest nor meta.json or sidecar says what this is; only a new build under "
                      "its identity can make it again: {}",
                      build_again(report.unit)));
      return;
    }
    if (request_.checkpoint.empty()) {
      item.left.push_back(
          all ? "nothing records what the content should be: give --checkpoint DIR to compare with"
              : fmt::format("layers {} have to be made again: give --checkpoint DIR", numbers(layers)));
      return;
    }
    rebuild(report, std::move(*facts), all ? std::optional<std::set<std::uint64_t>>() : layers, item);
  }

  // Repairs meta.json or the sidecar, which follow from the manifest, and bytes outside the rows.
  void small_files(const UnitReport& report, const std::set<std::uint64_t>& damaged,
                   RepairReport::Item& item) {
    const Manifest& manifest = *report.manifest;
    for (const Difference& difference : report.result.differences) {
      for (const DerivedFile& derived : derived_files(manifest)) {
        if (derived.path != difference.path || difference.denied || difference.kind == Kind::owner ||
            difference.kind == Kind::kind)
          continue;
        const std::string path = join(report.unit.root, derived.path);
        std::string content = derived.content;
        if (manifest.kind == ManifestKind::pack) {
          // Only sound layers may be listed; the others are listed when they have been made again.
          const CacheFacts& facts = *manifest.facts;
          const std::vector<std::uint64_t> indices = model_of_manifest(facts, "").layers;
          std::vector<std::uint64_t> keys;
          for (std::size_t i = 0; i < indices.size(); ++i)
            if (!damaged.contains(indices[i])) keys.push_back(facts.layers[i]);
          content = format::sidecar_json(
              format::pack_spec(*facts.tier, facts.geometry, format::rank_shape(facts.geometry, facts.world),
                                facts.ckpt_id, facts.zero_mode),
              keys);
        }
        act(item, fmt::format("write {} again", path),
            [&] { directory_->write_atomically(derived.path, content); });
      }
      if (!difference.strays.empty() && damaged.empty())
        act(item, fmt::format("make bytes outside the rows of {} zero", difference.path), [&] {
          File file = directory_->open_write(difference.path);
          const Manifest& local = *report.manifest;
          clear_gaps(context_, file, block_ranges(local, local.files.front()));
        });
    }
  }

  // Indices of the layers that damaged data belong to.
  static std::set<std::uint64_t> damaged_layers(const UnitReport& report) {
    const Manifest& manifest = *report.manifest;
    const CacheFacts& facts = *manifest.facts;
    const std::vector<std::uint64_t> all = model_of_manifest(facts, "").layers;
    std::set<std::uint64_t> out;
    for (const Difference& difference : report.result.differences) {
      if (difference.denied || difference.kind == Kind::extra || difference.kind == Kind::owner ||
          difference.kind == Kind::link || difference.kind == Kind::kind)
        continue;
      if (manifest.kind == ManifestKind::planescache) {
        for (const std::uint64_t layer : all)
          if (difference.path.starts_with(fmt::format("layer{}.", layer))) out.insert(layer);
      } else if (format::is_pack_file(difference.path)) {
        const std::size_t per_layer = facts.geometry.experts * format::slot_sections(*facts.tier).size();
        for (const std::size_t block : difference.blocks) out.insert(all.at(block / per_layer));
        if (difference.kind != Kind::content) out.insert(all.begin(), all.end());
      }
    }
    return out;
  }

  // layers: none: all.
  void rebuild(const UnitReport& report, Facts facts, const std::optional<std::set<std::uint64_t>>& layers,
               RepairReport::Item& item) {
    const Store store = store_of(report.unit);
    const Boot boot = boot_of(facts);
    if (!facts.drafts)
      facts.drafts = drafts_there(store, boot, model_of_checkpoint(source(0).model, request_.checkpoint));
    const Source& source = this->source(*facts.drafts);
    if (!fits(report, store, boot, source, item)) return;
    PlanRequest plan_request;
    plan_request.drafts = *facts.drafts;
    plan_request.world = facts.world;
    plan_request.rank = facts.rank;
    plan_request.zero_mode = facts.zero_mode;
    plan_request.cache = facts.fp4;
    if (facts.tier) plan_request.tiers = {*facts.tier};
    if (layers) plan_request.layers.emplace(layers->begin(), layers->end());
    BuildTarget target;
    target.ckpt_id = facts.ckpt_id;
    target.source = source.fingerprint;
    target.trust = Trust::content;
    if (facts.fp4)
      target.cache_root = cache_root(report.unit);
    else
      target.store = report.unit.root;
    act(item,
        layers ? fmt::format("make layers {} again from {}", numbers(*layers), request_.checkpoint)
               : fmt::format("compare everything with {}, make what differs again, and write the manifest",
                             request_.checkpoint),
        [&] {
          // The build would trust a manifest that contradicts name and contents.
          if (!layers) directory_->unlink(name_of(report.unit.manifest_path));
          const Plan plan = make_plan(source.model, plan_request);
          build(context_, source.checkpoint, source.model, plan, target, backend_);
        });
  }

  std::optional<Facts> facts_of(const UnitReport& report) const {
    if (report.manifest && report.problem.empty()) {
      const CacheFacts& facts = *report.manifest->facts;
      return Facts{facts.ckpt_id, facts.world, facts.rank,           facts.zero_mode,
                   facts.fp4,     facts.tier,  facts.geometry.drafts};
    }
    const Unit& unit = report.unit;
    if (unit.kind == ManifestKind::planescache) {
      const std::string root = cache_root(unit);
      for (const FoundCache& cache : scan_store(context_.os, root, "").caches)
        if (cache.meta && real_path(cache.path) == real_path(unit.path))
          return Facts{cache.meta->ckpt_id,   cache.meta->world, cache.meta->rank,
                       cache.meta->zero_mode, cache.fp4(),       {}};
      return std::nullopt;
    }
    for (const FoundPack& pack : scan_store(context_.os, "", unit.root).packs)
      if (pack.sidecar && format::pack_file(pack.stem) == unit.path)
        return Facts{pack.sidecar->spec.ckpt_id,   pack.world, pack.rank,
                     pack.sidecar->spec.zero_mode, {},         pack.sidecar->spec.tier};
    return std::nullopt;
  }

  Store store_of(const Unit& unit) const {
    if (unit.kind == ManifestKind::pack) return scan_store(context_.os, "", unit.root);
    return scan_store(context_.os, cache_root(unit), "");
  }

  static Boot boot_of(const Facts& facts) {
    Boot boot;
    boot.ckpt_id = facts.ckpt_id;
    boot.world = facts.world;
    boot.ranks = {facts.rank};
    boot.zero_mode = facts.zero_mode;
    if (facts.fp4) boot.fp4 = *facts.fp4;
    boot.split = boot.fp4 == format::Fp4Tier::quintal;
    if (facts.tier) boot.tiers = {*facts.tier};
    return boot;
  }

  // Whether the unit was made from this checkpoint: by fingerprint, else by a sample of sound experts.
  bool fits(const UnitReport& report, const Store& store, const Boot& boot, const Source& source,
            RepairReport::Item& item) const {
    const std::string recorded =
        report.manifest && report.manifest->facts ? report.manifest->facts->source : "";
    if (recorded == source.fingerprint) return true;
    if (!recorded.empty())
      throw Error(
          ErrorCode::usage, report.unit.path,
          fmt::format("was made from another checkpoint than {}: its source is {}, this checkpoint's is "
                      "{}; nothing was changed",
                      request_.checkpoint, recorded, source.fingerprint))
          .labelled("other-source");
    const BootVerdict verdict =
        probe(context_.os, store, boot, model_of_checkpoint(source.model, request_.checkpoint));
    constexpr std::uint64_t kFew = 8;
    const SampleReport sample = compare_with_checkpoint(context_, store, verdict, source.checkpoint,
                                                        source.model, {.count = kFew, .seed = 1});
    if (sample.bytes == 0 || sample.differing < sample.experts) return true;
    item.left.push_back(
        fmt::format("every expert of a sample differs from {}: this was made from another checkpoint, and "
                    "there is nothing to repair",
                    request_.checkpoint));
    return false;
  }

  void chunks(const UnitReport& report, RepairReport::Item& item) {
    bool others = !report.manifest;
    for (const Difference& difference : report.result.differences) {
      if (!report.manifest || !difference.path.starts_with(chunks::digest_list_name(""))) {
        others = true;
        continue;
      }
      act(item, fmt::format("write {} again", join(report.unit.root, difference.path)), [&] {
        directory_->write_atomically(difference.path, chunks::digest_list(report.manifest->files));
      });
    }
    if (!others) return;
    if (request_.sources.empty() || !report.manifest) {
      item.left = report.to_do;
      return;
    }
    const std::string manifest_path = report.unit.manifest_path;
    const chunks::ChunkManifest old = chunks::read_chunk_manifest(context_, manifest_path);
    chunks::PackOptions options;
    options.sources = request_.sources;
    options.name = old.name;
    options.out = report.unit.root;
    options.part_size = old.part_size;
    options.frame_size = old.frame_size;
    options.level = old.level;
    options.sha256 = !old.parts.empty() && !old.parts.front().sha256.empty();
    options.recheck = true;
    std::set<std::string> tops;
    for (const auto& member : old.layout.members()) tops.insert(member.path.substr(0, member.path.find('/')));
    const auto is_other = [&](const std::string& path) { return !tops.contains(name_of(real_path(path))); };
    if (options.sources.size() > 1) std::erase_if(options.sources, is_other);  // those of other sets
    if (tops.size() != options.sources.size()) {
      item.left.push_back(
          fmt::format("{} holds {}: give --source once for each of them", old.name, fmt::join(tops, ", ")));
      return;
    }
    if (tops.size() == 1) options.as = *tops.begin();
    const std::string sources = fmt::format("{}", fmt::join(options.sources, ", "));
    const auto pack_again = [&] { chunks::pack(chunks::plan_pack(options, context_), options, context_); };
    act(item, fmt::format("pack what differs of {} again from {}", old.name, sources), pack_again);
    if (request_.dry_run || verify_unit(context_, report.unit, {.allow_extra = true}).ok()) return;
    // Packing the same source gives the same bytes.
    options.force = true;
    act(item, fmt::format("pack all of {} again from {}", old.name, sources), pack_again);
  }

  const Source& source(std::uint64_t drafts) {
    if (!source_) {
      Checkpoint checkpoint = Checkpoint::open(context_, request_.checkpoint);
      Model model = find_experts(checkpoint);
      std::string fingerprint = source_fingerprint(context_, checkpoint, model);
      source_ =
          std::make_unique<Source>(Source{std::move(checkpoint), std::move(model), std::move(fingerprint)});
    }
    if (source_->model.geometry.drafts != drafts) source_->model = find_experts(source_->checkpoint, drafts);
    return *source_;
  }

  template <typename Do>
  void act(RepairReport::Item& item, const std::string& what, Do what_to_do) {
    item.done.push_back(what);
    if (request_.dry_run) return;
    context_.progress.say(what);
    what_to_do();
  }

  static std::string numbers(const std::set<std::uint64_t>& layers) {
    return number_list({layers.begin(), layers.end()}, ",");
  }

  const Context& context_;
  const RepairRequest& request_;
  Backend& backend_;
  NextCheck next_check_;
  std::optional<Dir> directory_;  // of the current unit
  std::unique_ptr<Source> source_;
};

}  // namespace

bool RepairReport::good() const {
  return std::all_of(items.begin(), items.end(), [](const Item& item) { return item.good; });
}

RepairReport repair(const Context& context, const RepairRequest& request, Backend& backend) {
  return Repair(context, request, backend).run();
}

std::string to_text(const RepairReport& report, bool dry_run) {
  std::string out;
  std::size_t good = 0;
  for (const RepairReport::Item& item : report.items) {
    if (item.good) ++good;
    out += fmt::format("{}: {}\n", printable(item.path),
                       item.good ? item.found.empty() ? "ok" : "repaired"
                       : dry_run ? "damaged"
                                 : "NOT OK");
    for (const std::string& line : item.found) out += fmt::format("  found    {}\n", printable(line));
    for (const std::string& line : item.done)
      out += fmt::format("  {} {}\n", dry_run ? "would   " : "done    ", printable(line));
    for (const std::string& line : item.left) out += fmt::format("  left     {}\n", printable(line));
  }
  return out + fmt::format("{} of {} are good\n", good, report.items.size());
}

Json to_json(const RepairReport& report) {
  const auto lines = [](const std::vector<std::string>& all) {
    Json out = Json::array();
    for (const std::string& line : all) out.push_back(printable(line));
    return out;
  };
  Json items = Json::array();
  for (const RepairReport::Item& item : report.items)
    items.push_back({{"path", printable(item.path)},
                     {"good", item.good},
                     {"found", lines(item.found)},
                     {"done", lines(item.done)},
                     {"left", lines(item.left)}});
  return {{"items", items}};
}

}  // namespace planesmith
