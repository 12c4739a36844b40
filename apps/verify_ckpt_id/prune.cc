// verify-ckpt-id prune: removes caches and packs of other identities.
#include "maintain/prune.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "verify_ckpt_id/commands.h"

namespace planesmith {
namespace {

struct PruneOptions {
  PruneRequest request;
  bool group_shared = false, json = false;
};

void declare(CLI::App& app, PruneOptions& options) {
  app.add_option("--planescache", options.request.planescache, "Root of a planes cache");
  app.add_option("--store", options.request.store, "Directory of packs");
  app.add_option("--keep", options.request.keep,
                 "Identities to keep; caches and packs of all others are removed")
      ->required();
  app.add_flag("-f,--force", options.request.force, "Remove (default: only show what would be removed)");
  app.add_flag("--group-shared", options.group_shared, "The store and its locks are shared with a group");
  app.add_flag("--json", options.json, "Print one JSON document");
}

int run(Context& context, const PruneOptions& options) {
  if (options.request.planescache.empty() && options.request.store.empty())
    throw Error(ErrorCode::usage, "", "give --planescache, --store or both");
  if (options.group_shared) share_with_group(context);
  const PruneReport report = prune(context, options.request);
  const bool removed = options.request.force;
  if (removed && !report.removed.empty()) {
    std::string next = "verify-ckpt-id list";
    if (!options.request.planescache.empty())
      next += " --planescache " + shell_quoted(options.request.planescache);
    if (!options.request.store.empty()) next += " --store " + shell_quoted(options.request.store);
    suggest_next(next);
  }
  if (options.json) {
    const auto listed = [](const std::vector<PruneReport::Item>& items) {
      Json out = Json::array();
      for (const PruneReport::Item& item : items)
        out.push_back({{"ckpt_id", item.ckpt_id}, {"path", printable(item.path)}, {"bytes", item.bytes}});
      return out;
    };
    print_json(
        {{removed ? "removed" : "would_remove", listed(report.removed)}, {"kept", listed(report.kept)}});
    return 0;
  }
  std::string text;
  std::uint64_t bytes = 0;
  const auto line = [&](const char* what, const PruneReport::Item& item) {
    text += fmt::format("{} {}: {}, {}\n", what, printable(item.ckpt_id), printable(item.path),
                        short_size(item.bytes));
  };
  for (const PruneReport::Item& item : report.kept) line("keep", item);
  for (const PruneReport::Item& item : report.removed) {
    line(removed ? "removed" : "would remove", item);
    bytes += item.bytes;
  }
  text += fmt::format("{} {}{}\n", removed ? "removed" : "would remove", exact_size(bytes),
                      removed || report.removed.empty() ? "" : "; --force removes it");
  print_result(text);
  return 0;
}

}  // namespace

void add_prune(Subcommands& commands) {
  commands.add<PruneOptions>("prune", "Remove the caches and packs of all identities but those named",
                             declare, run);
}

}  // namespace planesmith
