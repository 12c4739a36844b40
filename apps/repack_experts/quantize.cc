#include "rewrite/quantize.h"

#include <fmt/format.h>

#include "repack_experts/commands.h"
#include "repack_experts/rewrite_flags.h"

namespace planesmith {
namespace {

struct QuantizeOptions {
  RewriteFlags rewrite;
  BackendFlags backend;
  std::string to;
};

void declare(CLI::App& app, QuantizeOptions& options) {
  app.add_option("SOURCE", options.rewrite.options.source,
                 "Directory of a checkpoint whose experts are BF16, F16 or F32")
      ->required();
  app.add_option("TARGET", options.rewrite.options.target,
                 "Directory of the new checkpoint, outside the source")
      ->required();
  app.add_option("--to", options.to, "nvfp4 (as modelopt exports it), mxfp4 (DeepSeek-V4's layout)")
      ->type_name("TEXT:{nvfp4,mxfp4}")
      ->required();
  add_backend_flags(app, options.backend);
  add_rewrite_flags(app, options.rewrite);
}

int run(Context& context, const QuantizeOptions& options) {
  RewriteOptions rewrite_options = options_of(options.rewrite, context);
  rewrite_options.backend = backend_of(options.backend);
  const QuantizeResult result = quantize(context, parse_fp4(options.to), rewrite_options);
  if (!rewrite_options.dry_run) suggest_audit(rewrite_options.target, rewrite_options.source);
  if (options.rewrite.json) {
    Json json = json_of(result.files);
    json.update({{"to", options.to},
                 {"backend", result.files.backend},
                 {"layers", result.layers},
                 {"experts", result.experts},
                 {"expert_weights", result.weights},
                 {"drafter_tensors", result.drafters},
                 {"ignore", result.excluded}});
    print_json(std::move(json));
    return 0;
  }
  std::string text =
      fmt::format("{} sparse layers x {} experts x 3 = {} expert weights{} to {}: {} tensors\n",
                  result.layers, result.experts, result.weights, result.fused ? ", fused in the source," : "",
                  options.to, result.files.made);
  if (result.drafters != 0)
    text += fmt::format("{} drafter (MTP) tensors stay as they are\n", result.drafters);
  text +=
      fmt::format("{} entries in ignore name the modules that are not quantized\n", result.excluded.size());
  print_result(text + text_of(result.files, rewrite_options.dry_run));
  return 0;
}

}  // namespace

void add_quantize(Subcommands& commands) {
  commands.add<QuantizeOptions>(
      "quantize", "Write a checkpoint whose experts are NVFP4 or MXFP4, from one of floats", declare, run);
}

}  // namespace planesmith
