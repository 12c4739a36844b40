// verify-ckpt-id list: lists identities.
#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/text.h"
#include "common/geometry_flags.h"
#include "store/store.h"
#include "verify/report.h"
#include "verify_ckpt_id/commands.h"

namespace planesmith {
namespace {

struct ListOptions {
  std::string planescache, store;
  GeometryFlags geometry;
  bool json = false;
};

void declare(CLI::App& app, ListOptions& options) {
  app.add_option("--planescache", options.planescache, "Root of a planes cache");
  app.add_option("--store", options.store, "Directory of packs");
  add_geometry_flags(app, options.geometry);
  app.add_flag("--json", options.json, "Print one JSON document");
}

int run(Context& context, const ListOptions& options) {
  if (options.planescache.empty() && options.store.empty())
    throw Error(ErrorCode::usage, "", "give --planescache, --store or both");
  for (const std::string& directory : {options.planescache, options.store})
    if (!directory.empty())
      status(context.os, directory);  // a mistyped path must not look like an empty store
  Store store = scan_store(context.os, options.planescache, options.store);
  if (const std::optional<KnownModel> model = told_model(context.os, options.geometry))
    tell_model(store, *model);
  const std::vector<FoundIdentity> found = identities(store);
  const auto stray = [](const auto& each) { return !each.problem.empty(); };
  if (!std::all_of(found.begin(), found.end(), is_whole) ||
      std::any_of(store.caches.begin(), store.caches.end(), stray) ||
      std::any_of(store.packs.begin(), store.packs.end(), stray)) {
    std::string paths;
    for (const std::string& directory : {options.planescache, options.store})
      if (!directory.empty()) paths += " " + shell_quoted(directory);
    context.progress.say(fmt::format("what is not complete, and what to do: verify-ckpt-id verify{}", paths));
  }
  if (options.json)
    print_json(to_json(store));
  else
    print_result(to_text(store));
  return 0;
}

}  // namespace

void add_store_list(Subcommands& commands) {
  commands.add<ListOptions>("list", "List the identities found, with size and completeness", declare, run);
}

}  // namespace planesmith
