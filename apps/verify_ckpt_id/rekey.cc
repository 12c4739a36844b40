// verify-ckpt-id rekey: gives caches and packs another identity.
#include "maintain/rekey.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "verify_ckpt_id/commands.h"

namespace planesmith {
namespace {

struct RekeyOptions {
  RekeyRequest request;
  bool group_shared = false, json = false;
};

void declare(CLI::App& app, RekeyOptions& options) {
  app.add_option("--from", options.request.from, "Present identity")->required();
  app.add_option("--to", options.request.to, "New identity")->required();
  app.add_option("--planescache", options.request.planescache, "Root of a planes cache");
  app.add_option("--store", options.request.store, "Directory of packs");
  app.add_flag("--copy", options.request.copy, "Copy the data where the file system refuses hard links");
  app.add_flag("--group-shared", options.group_shared, "The store and its locks are shared with a group");
  app.add_flag("-n,--dry-run", options.request.dry_run,
               "Check, and show what would be renamed; change nothing");
  app.add_flag("--json", options.json, "Print one JSON document");
}

int run(Context& context, const RekeyOptions& options) {
  if (options.group_shared) share_with_group(context);
  const RekeyReport report = rekey(context, options.request);
  if (!options.request.dry_run) {
    std::string next = "verify-ckpt-id check";
    if (!options.request.planescache.empty())
      next += " --planescache " + shell_quoted(options.request.planescache);
    if (!options.request.store.empty()) next += " --store " + shell_quoted(options.request.store);
    suggest_next(next + " --ckpt-id " + shell_quoted(options.request.to));
  }
  if (options.json) {
    Json moved = Json::array(), already = Json::array();
    for (const RekeyReport::Item& item : report.moved)
      moved.push_back({{"from", printable(item.from)}, {"to", printable(item.to)}});
    for (const std::string& path : report.already) already.push_back(printable(path));
    print_json({{"ckpt_id", options.request.to},
                {"dry_run", options.request.dry_run},
                {"moved", moved},
                {"already", already}});
    return 0;
  }
  std::string text;
  for (const RekeyReport::Item& item : report.moved)
    text += fmt::format("{}{} -> {}\n", options.request.dry_run ? "would rename " : "", printable(item.from),
                        printable(item.to));
  for (const std::string& path : report.already)
    text += fmt::format("{} has the new identity already\n", printable(path));
  print_result(text);
  return 0;
}

}  // namespace

void add_rekey(Subcommands& commands) {
  commands.add<RekeyOptions>("rekey", "Give caches and packs another identity, without copying data", declare,
                             run);
}

}  // namespace planesmith
