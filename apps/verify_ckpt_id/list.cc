// verify-ckpt-id list: lists identities.
#include "base/file.h"
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
