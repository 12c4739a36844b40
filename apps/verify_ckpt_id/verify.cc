// verify-ckpt-id verify: compares files with their manifests.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <random>

#include "base/file.h"
#include "manifest/foreign.h"
#include "upkeep/units.h"
#include "verify/verify_files.h"
#include "verify_ckpt_id/commands.h"
#include "verify_ckpt_id/hash_flag.h"

namespace planesmith {
namespace {

struct VerifyFlags {
  std::vector<std::string> paths;
  std::string root, hash, hf_tree, subset, since;
  bool quick = false, allow_extra = false, json = false;
};

void declare(CLI::App& app, VerifyFlags& flags) {
  app.add_option(
         "path", flags.paths,
         "Directories (a cache's root, a store, chunks): everything below with a manifest; or a manifest, "
         "what sha256sum wrote, or a Hugging Face tree listing saved as JSON")
      ->required();
  app.add_option("--root", flags.root, "Directory of a manifest's files (default: its own)");
  app.add_flag("--quick", flags.quick, "Compare names, kinds and sizes, and read no contents");
  add_hash_flag(app, flags.hash, "Digest to compare (default: xxh3 where the manifest has it, else sha256)");
  app.add_flag("--allow-extra", flags.allow_extra,
               "Files that the manifest does not list are not a difference");
  app.add_option("--read-data-subset", flags.subset,
                 "Read only a part of the contents: 10% (another one each time) or 2/5 (default: all)");
  app.add_option(
      "--since", flags.since,
      "Skip contents that were found good within this time and have not changed since: 7d, 12h, 30m");
  app.add_option(
      "--hf-tree", flags.hf_tree,
      "Also compare with this listing of a Hugging Face repository (the API's tree, recursive, saved as "
      "JSON), so that an upload is checked without a download");
  app.add_flag("--json", flags.json, "Print one JSON document");
}

std::chrono::seconds parse_duration(const std::string& text) {
  constexpr std::int64_t kMost = 1 << 20;
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, number);
  if (error == std::errc() && at + 1 == end && number >= 0 && number <= kMost) {
    if (*at == 'd') return std::chrono::hours(24 * number);
    if (*at == 'h') return std::chrono::hours(number);
    if (*at == 'm') return std::chrono::minutes(number);
    if (*at == 's') return std::chrono::seconds(number);
  }
  throw Error(ErrorCode::usage, "",
              fmt::format("--since: '{}' is not a time like 7d, 12h, 30m or 90s", text));
}

VerifyOptions options_of(const VerifyFlags& flags) {
  VerifyOptions options{.root = flags.root, .quick = flags.quick, .allow_extra = flags.allow_extra};
  if (!flags.hash.empty()) options.hashes = hashes_of(flags.hash);
  if (!flags.subset.empty()) {
    options.subset = parse_subset(flags.subset);
    options.subset->seed = std::random_device()();
  }
  if (!flags.since.empty()) options.since = parse_duration(flags.since);
  return options;
}

// The whole list is held in memory.
std::string read_list(const Context& context, const std::string& path) {
  const auto bytes = static_cast<std::uint64_t>(status(context.os, path).st_size);
  const std::uint64_t limit = std::max<std::uint64_t>(1, manifest_text_limit(context.memory));
  if (bytes > limit)
    throw Error(ErrorCode::usage, path,
                fmt::format("has {} bytes; --memory {} is too small for that, the smallest that works is {}",
                            bytes, context.memory, (bytes + 1) * (context.memory / limit)));
  return read_text(context.os, path, limit);
}

int run_list(Context& context, const VerifyFlags& flags, VerifyOptions options) {
  const std::string& path = flags.paths.front();
  const std::string text = read_list(context, path);
  Manifest manifest = read_any_manifest(text, path, context.memory);
  options.manifest_path = path;
  if (flags.root.empty())
    options.root = parent_of(path);
  else
    fit_to_root(context.os, manifest, options.root);
  Verification result = verify_files(context, manifest, text, options);
  if (!flags.hf_tree.empty()) {
    const std::vector<FileEntry> listing =
        parse_hf_tree(read_list(context, flags.hf_tree), flags.hf_tree, context.memory);
    const std::vector<Difference> remote = compare_with_listing(context, manifest, listing, options);
    result.differences.insert(result.differences.end(), remote.begin(), remote.end());
  }
  if (flags.json)
    print_json(to_json(manifest, result, options));
  else
    print_result(to_text(manifest, result, options));
  return result.ok() ? 0 : static_cast<int>(ErrorCode::difference);
}

int run_units(Context& context, const VerifyFlags& flags, const VerifyOptions& options) {
  std::vector<Unit> units;
  for (const std::string& path : flags.paths) {
    const std::vector<Unit> found = find_units(context, path);
    units.insert(units.end(), found.begin(), found.end());
  }
  std::string text;
  Json json = Json::array();
  std::size_t good = 0;
  std::uint64_t files = 0, bytes = 0, before = 0;
  for (const Unit& unit : units) {
    const UnitReport report = verify_unit(context, unit, options);
    good += report.ok() ? 1 : 0;
    files += report.result.files;
    bytes += report.result.bytes;
    before += report.result.bytes_before;
    if (flags.json)
      json.push_back(to_json(report, options));
    else
      text += to_text(report, options);
  }
  if (flags.json)
    print_json({{"units", json},
                {"good", good},
                {"files", files},
                {"bytes", bytes},
                {"bytes_before", before},
                {"quick", options.quick}});
  else
    print_result(
        text + fmt::format("{} of {} are what their manifests say; {} files, {}{}\n", good, units.size(),
                           files, options.quick ? "names, kinds and sizes only" : exact_size(bytes) + " read",
                           before == 0 ? "" : ", " + exact_size(before) + " found good before"));
  return good == units.size() ? 0 : static_cast<int>(ErrorCode::difference);
}

int run(Context& context, const VerifyFlags& flags) {
  const VerifyOptions options = options_of(flags);
  const std::string& first = flags.paths.front();
  const bool one_list = flags.paths.size() == 1 && !first.ends_with(".pack") && exists(context.os, first) &&
                        S_ISREG(status(context.os, first).st_mode);
  if (one_list) return run_list(context, flags, options);
  if (!flags.root.empty() || !flags.hf_tree.empty())
    throw Error(ErrorCode::usage, "", "--root and --hf-tree need a single manifest");
  return run_units(context, flags, options);
}

}  // namespace

void add_verify_manifest(Subcommands& commands) {
  commands.add<VerifyFlags>(
      "verify", "Compare files with their manifests; never writes where they are. Exit status 3: they differ",
      declare, run);
}

}  // namespace planesmith
