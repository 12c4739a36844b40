#include "rewrite/translate.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/text.h"
#include "repack_experts/commands.h"
#include "repack_experts/rewrite_flags.h"

namespace planesmith {
namespace {

struct TranslateFlags {
  RewriteFlags rewrite;
  TranslateOptions translate;
};

void declare(CLI::App& app, TranslateFlags& flags) {
  app.add_option("SOURCE", flags.rewrite.options.source, "Directory of a quantized checkpoint from any tool")
      ->required();
  app.add_option("TARGET", flags.rewrite.options.target,
                 "Directory of the new checkpoint, outside the source")
      ->required();
  app.add_flag("--gate", flags.translate.gate, "Afterwards dequantize both and compare every element");
  app.add_flag("--lossy", flags.translate.lossy,
               "MXFP4 to NVFP4: round blocks beyond the range of NVFP4's scales instead of refusing");
  flags.rewrite.options.backend.backend = "cpu";  // there is nothing to quantize
  add_isa_flag(app, flags.rewrite.options.backend.isa);
  add_rewrite_flags(app, flags.rewrite);
}

std::string text_of(const TranslateResult& result, bool dry_run) {
  std::string text = fmt::format("{} to {}\n", printable(result.from), result.to);
  for (const auto& [what, count] : result.modules) text += fmt::format("{} modules: {}\n", count, what);
  if (result.kept != 0) text += fmt::format("{} quantized modules stay as they are\n", result.kept);
  text += text_of(result.files, dry_run);
  if (!result.gate) return text;
  constexpr std::size_t kShown = 10;
  for (std::size_t i = 0; i < std::min(kShown, result.gate->differences.size()); ++i)
    text += "DIFFERENT: " + printable(result.gate->differences[i]) + "\n";
  return text +
         (result.gate->differences.empty()
              ? fmt::format("passed: {} elements of {} modules are equal, {} other tensors identical\n",
                            result.gate->elements, result.gate->modules, result.gate->tensors)
              : fmt::format("FAILED: {} differences\n", result.gate->differences.size()));
}

Json json_of(const TranslateResult& result) {
  Json json = json_of(result.files);
  json.update(
      {{"from", result.from}, {"to", result.to}, {"modules", result.modules}, {"modules_kept", result.kept}});
  if (result.gate)
    json["gate"] = {{"passed", result.gate->differences.empty()},
                    {"modules", result.gate->modules},
                    {"elements", result.gate->elements},
                    {"tensors", result.gate->tensors},
                    {"differences", result.gate->differences}};
  return json;
}

int run(Context& context, const TranslateFlags& flags) {
  TranslateOptions options = flags.translate;
  options.rewrite = options_of(flags.rewrite, context);
  const TranslateResult result = translate(context, options);
  if (!options.rewrite.dry_run) suggest_audit(options.rewrite.target, options.rewrite.source);
  if (flags.rewrite.json)
    print_json(json_of(result));
  else
    print_result(text_of(result, options.rewrite.dry_run));
  return result.gate && !result.gate->differences.empty() ? static_cast<int>(ErrorCode::difference) : 0;
}

}  // namespace

void add_translate(Subcommands& commands) {
  commands.add<TranslateFlags>("translate", "Write the same numbers in a layout that the engine serves",
                               declare, run);
}

}  // namespace planesmith
