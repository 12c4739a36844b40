// verify-ckpt-id repair: does what verify and check advise, then verifies again.
#include "upkeep/repair.h"

#include "verify_ckpt_id/commands.h"

namespace planesmith {
namespace {

struct RepairFlags {
  RepairRequest request;
  bool group_shared = false, json = false;
};

void declare(CLI::App& app, RepairFlags& flags) {
  app.add_option("PATH", flags.request.paths, "Directories and manifests, as for verify")->required();
  app.add_option("--checkpoint", flags.request.checkpoint,
                 "Checkpoint that they were made from, to make damaged layers again");
  app.add_option(
         "--source", flags.request.sources,
         "Directory that the chunks were packed from, to pack damaged parts again; may be given several "
         "times")
      ->allow_extra_args(false);
  app.add_flag("-n,--dry-run", flags.request.dry_run, "Verify, and show what would be done; change nothing");
  app.add_flag("--group-shared", flags.group_shared,
               "Share what is written and its locks with the group of the directory");
  app.add_flag("--json", flags.json, "Print one JSON document");
}

int run(Context& context, const RepairFlags& flags) {
  if (flags.group_shared) share_with_group(context);
  const std::unique_ptr<Backend> backend = make_backend({});
  const RepairReport report = repair(context, flags.request, *backend);
  suggest_next(report.next);
  if (flags.json)
    print_json(to_json(report));
  else
    print_result(to_text(report, flags.request.dry_run));
  return report.good() ? 0 : static_cast<int>(ErrorCode::difference);
}

}  // namespace

void add_repair(Subcommands& commands) {
  commands.add<RepairFlags>("repair", "Repair what verify finds damaged, and only that", declare, run);
}

}  // namespace planesmith
