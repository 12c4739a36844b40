#include "rewrite/finish.h"

#include <fmt/format.h>

#include "audit/audit.h"
#include "base/error.h"
#include "base/text.h"
#include "checkpoint/layout.h"
#include "repack_experts/commands.h"
#include "repack_experts/rewrite_flags.h"

namespace planesmith {
namespace {

struct FinishOptions {
  RewriteFlags rewrite;
  std::string from;
};

void declare(CLI::App& app, FinishOptions& options) {
  app.add_option("QUANTIZED", options.rewrite.options.source, "Directory of a quantizer's output")
      ->required();
  app.add_option("--from", options.from, "Directory of the checkpoint that it was made from")->required();
  app.add_option("TARGET", options.rewrite.options.target,
                 "Directory of the new checkpoint, outside the others")
      ->required();
  options.rewrite.options.backend.backend = "cpu";  // there is nothing to quantize
  add_isa_flag(app, options.rewrite.options.backend.isa);
  add_rewrite_flags(app, options.rewrite);
}

int run(Context& context, const FinishOptions& options) {
  const RewriteOptions rewrite_options = options_of(options.rewrite, context);
  const FinishResult result = finish(context, options.from, rewrite_options);
  std::optional<AuditReport> report;
  if (!rewrite_options.dry_run) {
    AuditRequest request;
    request.checkpoint = rewrite_options.target;
    request.against = options.from;
    report = audit(context, request);
    const std::string finished = shell_quoted(request.checkpoint);
    if (judge_layout(Checkpoint::open(context, request.checkpoint)).lead == Lead::translate)
      suggest_next(fmt::format("repack-experts translate {} {}", finished,
                               shell_quoted(request.checkpoint + ".translated")));
    else
      suggest_next(fmt::format("build-planescache {} --out {} --dry-run", finished,
                               shell_quoted(request.checkpoint + ".planescache")));
  }
  if (options.rewrite.json) {
    Json json = json_of(result.files);
    json["steps"] = result.steps;
    if (report) json["audit"] = to_json(*report);
    print_json(json);
  } else {
    std::string text;
    for (const std::string& step : result.steps) text += printable(step) + "\n";
    if (result.steps.empty()) text += "nothing was missing\n";
    text += text_of(result.files, rewrite_options.dry_run);
    print_result(report ? text + "\naudit --against the source:\n" + to_text(*report) : text);
  }
  return report && report->failed() ? static_cast<int>(ErrorCode::difference) : 0;
}

}  // namespace

void add_finish(Subcommands& commands) {
  commands.add<FinishOptions>(
      "finish", "Add what quantizers leave out: drafters, ignore lists, processor and tokenizer files",
      declare, run);
}

}  // namespace planesmith
