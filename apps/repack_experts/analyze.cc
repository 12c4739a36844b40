#include "fidelity/analyze.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <cmath>
#include <ctime>
#include <optional>

#include "base/text.h"
#include "base/version.h"
#include "checkpoint/identity.h"
#include "common/flag_values.h"
#include "common/output.h"
#include "fidelity/report.h"
#include "page/page.h"
#include "repack_experts/commands.h"

namespace planesmith {
namespace {

struct AnalyzeFlags {
  AnalyzeOptions analyze;
  std::optional<std::string> layers;  // none: all
  std::string report, isa = "auto";
  bool json = false;
};

void declare(CLI::App& app, AnalyzeFlags& flags) {
  app.add_option("SOURCE", flags.analyze.source,
                 "Directory of a checkpoint of any family, or of BF16, F16 or F32 experts")
      ->required();
  app.add_option("--layers", flags.layers, "Only these layer indices, such as 0-2,7 (default: all)");
  app.add_option("--report", flags.report,
                 "Write a self-contained HTML page to this file. It names the content id, for which every "
                 "byte is hashed once");
  add_isa_flag(app, flags.isa);
  app.add_flag("--json", flags.json, "Print all figures as JSON instead of a summary");
}

std::string text_of(const Fidelity& fidelity) {
  const FidelitySummary model = summary(fidelity);
  std::string text =
      fmt::format("{} expert tensors, {} family{}\n\n", model.tensors, name(fidelity.family),
                  fidelity.source.empty() ? "" : fmt::format(": what quantize makes of {}", fidelity.source));
  text += "layer  canonical  bias: asymmetric   symmetric      served  relative RMS: asymmetric  served\n";
  for (const std::uint64_t layer : layers(fidelity)) {
    const FidelitySummary sum = summary(fidelity, layer);
    text += fmt::format("{:5}  {:>9}  {:+16.6f}  {:+10.6f}  {:+10.6f}  {:24.4f}  {:6.4f}\n", layer,
                        fmt::format("{}/{}", sum.canonical, sum.tensors), sum.bias_asymmetric,
                        sum.bias_symmetric, sum.bias_served, sum.rms_asymmetric, sum.rms_served);
  }
  text += "\nworst tensors, by |bias| of {-4, -1, 1, 4}\n";
  for (const TensorFidelity* tensor : worst(fidelity, 5))
    text += fmt::format("  {:+.6f}  {}  best set {}\n", tensor->served.deviation.bias(),
                        printable(tensor->name), levels_text(tensor->symmetric.levels));
  if (model.requantized)
    text += fmt::format("\nmean |bias| by zero mode: sign {:.6f}, alt {:.6f}, auto {:.6f}\n",
                        model.abs_bias_sign, model.abs_bias_alt, model.abs_bias_served);
  if (model.of_floats)
    text += fmt::format(
        "\nagainst the {} weights, means over tensors\n"
        "  NVFP4           relative RMS {:.4f}  |bias| {:.6f} of the mean magnitude\n"
        "  2-bit codebook  relative RMS {:.4f}  |bias| {:.6f}\n",
        fidelity.source, model.rms_nvfp4, model.abs_bias_nvfp4, model.rms_codebook, model.abs_bias_codebook);
  return text;
}

std::string verdict_text(const Verdict& verdict) {
  std::string text;
  for (const Verdict::Check& check : verdict.checks)
    text += fmt::format("{} {}\n", check.holds ? "ok  " : "FAIL", check.text);
  return text + (verdict.holds() ? "verdict: the 2-bit codebook fits this model\n"
                                 : "verdict: the 2-bit codebook does NOT fit this model\n");
}

int run(Context& context, const AnalyzeFlags& flags) {
  AnalyzeOptions options = flags.analyze;
  if (flags.layers) options.layers = parse_number_list(*flags.layers, "--layers");
  if (!flags.report.empty()) {
    refuse_input(context, flags.report, options.source);
    require_plotting_library();
  }
  const Fidelity fidelity = analyze(context, options, choose_kernels(flags.isa));
  if (!flags.report.empty()) {
    const ContentId content = content_id(context, options.source, false);
    write_output(
        context, flags.report,
        report_html(fidelity, {.directory = real_path(options.source),
                               .content_id = content.id,
                               .date = fmt::format("{:%Y-%m-%d %H:%M} UTC", fmt::gmtime(std::time(nullptr))),
                               .version = version()}));
  }
  const Verdict result = verdict(summary(fidelity));
  if (flags.json)
    print_json(to_json(fidelity));
  else
    print_result(text_of(fidelity) + "\n" + verdict_text(result));
  if (result.holds()) return 0;
  for (const Verdict::Check& check : result.checks)
    if (!check.holds) context.progress.say(check.text);
  return static_cast<int>(ErrorCode::difference);
}

}  // namespace

void add_analyze(Subcommands& commands) {
  commands.add<AnalyzeFlags>("analyze", "Measure how well the 2-bit codebook fits the experts", declare, run);
}

}  // namespace planesmith
