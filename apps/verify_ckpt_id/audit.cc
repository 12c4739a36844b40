// verify-ckpt-id audit: lints a checkpoint.
#include "audit/audit.h"

#include "common/flag_values.h"
#include "format/limits.h"
#include "verify_ckpt_id/commands.h"

namespace planesmith {
namespace {

struct AuditOptions {
  std::string checkpoint, against, profile, cache;
  std::uint64_t world = 1;
  bool json = false;
};

void declare(CLI::App& app, AuditOptions& options) {
  app.add_option("CHECKPOINT", options.checkpoint, "Directory with config.json and safetensors shards")
      ->required();
  app.add_option("--against", options.against,
                 "The checkpoint that it was made from: everything but the experts must be the same");
  app.add_option(
      "--against-cache", options.cache,
      "Root of a planes cache, or directory of packs: check whether it was made from this checkpoint");
  add_profile_flag(app, options.profile, "Profile (name or file) that the model should match");
  app.add_option("--world", options.world, "Number of tensor-parallel ranks to serve with")
      ->check(CLI::Range(std::uint64_t{1}, format::kMostWorld))
      ->capture_default_str();
  app.add_flag("--json", options.json, "Print one JSON document");
}

int run(Context& context, const AuditOptions& options) {
  AuditRequest request{options.checkpoint, {}, {}, options.world, options.cache};
  if (!options.against.empty()) request.against = options.against;
  if (!options.profile.empty()) request.profile = find_profile(context.os, options.profile);
  const AuditReport report = audit(context, request);
  if (options.json)
    print_json(to_json(report));
  else
    print_result(to_text(report));
  return report.failed() ? static_cast<int>(ErrorCode::difference) : 0;
}

}  // namespace

void add_audit(Subcommands& commands) {
  commands.add<AuditOptions>("audit", "Lint a checkpoint before it is converted or served", declare, run);
}

}  // namespace planesmith
