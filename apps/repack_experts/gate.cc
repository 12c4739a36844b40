#include "repack/gate.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/text.h"
#include "common/flag_values.h"
#include "repack_experts/commands.h"

namespace planesmith {
namespace {

struct GateOptions {
  std::string source, isa = "auto";
  std::vector<std::string> files;
  bool json = false;
};

void declare(CLI::App& app, GateOptions& options) {
  app.add_option("SOURCE", options.source, "Directory of an MXFP4 checkpoint")->required();
  app.add_option("--file", options.files, "Only these shards, by name (default: all)");
  add_isa_flag(app, options.isa);
  app.add_flag("--json", options.json, "Print the result as JSON instead of text");
}

std::string text_of(const GateResult& result) {
  std::string text;
  for (const GateResult::File& file : result.files)
    text += fmt::format("{}: {} expert tensors, {}\n", printable(file.name), file.tensors,
                        exact_size(file.bytes));
  for (const GateResult::Difference& d : result.differences)
    text +=
        fmt::format("{}: tensor '{}': at byte {}: {} with 16 levels made {:#04x} of {:#04x}\n",
                    printable(d.file), printable(d.tensor), d.offset, name(d.granularity), d.became, d.was);
  return text + (result.differences.empty()
                     ? "passed: identical in every granularity\n"
                     : fmt::format("FAILED: {} differences\n", result.differences.size()));
}

Json json_of(const GateResult& result) {
  Json json = {
      {"passed", result.differences.empty()}, {"files", Json::array()}, {"differences", Json::array()}};
  for (const GateResult::File& file : result.files)
    json["files"].push_back({{"file", file.name}, {"n_expert_tensors", file.tensors}, {"bytes", file.bytes}});
  for (const GateResult::Difference& d : result.differences)
    json["differences"].push_back({{"file", d.file},
                                   {"tensor", d.tensor},
                                   {"offset", d.offset},
                                   {"granularity", name(d.granularity)},
                                   {"was", d.was},
                                   {"became", d.became}});
  return json;
}

int run(Context& context, const GateOptions& options) {
  const GateResult result = gate(context, options.source, options.files, choose_kernels(options.isa));
  if (options.json)
    print_json(json_of(result));
  else
    print_result(text_of(result));
  return result.differences.empty() ? 0 : static_cast<int>(ErrorCode::difference);
}

}  // namespace

void add_gate(Subcommands& commands) {
  commands.add<GateOptions>("gate", "Prove that repacking with 16 levels gives back identical bytes", declare,
                            run);
}

}  // namespace planesmith
