#include <fmt/format.h>

#include "base/json.h"
#include "base/paths.h"
#include "base/text.h"
#include "common/flag_values.h"
#include "common/output.h"
#include "common/output_flags.h"
#include "repack/repack.h"
#include "repack_experts/commands.h"
#include "repack_experts/rewrite_flags.h"

namespace planesmith {
namespace {

struct BuildOptions {
  RepackOptions repack;
  std::string granularity, link = "sym", stats_out;
  OutputFlags output;
  bool json = false;
};

void declare(CLI::App& app, BuildOptions& options) {
  RepackOptions& repack = options.repack;
  app.add_option("SOURCE", repack.source, "Directory of an MXFP4 checkpoint")->required();
  app.add_option("TARGET", repack.target, "Directory of the new checkpoint, outside the source")->required();
  app.add_option("--levels", repack.levels, "Values of a codebook, 2 to 16; 15 and 16 change nothing")
      ->required();
  app.add_option("--granularity", options.granularity,
                 "What shares a codebook: tensor, tensor-sym (symmetric, 4 levels), expert, row, block32")
      ->type_name("TEXT:{tensor,tensor-sym,expert,row,block32}")
      ->required();
  app.add_option("--stats-out", options.stats_out, "Write statistics as JSON to this file");
  app.add_option("--link", options.link,
                 "Files without experts: sym (symbolic links), reflink (shared blocks), copy")
      ->type_name("TEXT:{sym,reflink,copy}")
      ->capture_default_str();
  add_isa_flag(app, repack.isa);
  app.add_flag("-f,--force", repack.force, "Rebuild everything, whatever the target holds");
  app.add_flag("--recheck", repack.recheck, "Compare finished files with the source, not only their sizes");
  app.add_flag("-n,--dry-run", repack.dry_run,
               "Check everything and print the plan; read no weights, write nothing");
  add_output_flags(app, options.output);
  app.add_flag("--json", options.json, "Print the statistics as JSON instead of text");
}

std::string text_of(const RepackResult& result, const BuildOptions& options) {
  std::string text;
  for (const RepackResult::File& file : result.files) {
    text += fmt::format("{}: {} expert tensors", printable(file.plan.name), file.plan.tensors);
    if (file.figures)
      text += fmt::format(", relative RMS {:.4f}, bias {:+.6f}", file.figures->deviation.relative_rms(),
                          file.figures->deviation.bias());
    else
      text += fmt::format(", {} to be written", exact_size(file.plan.bytes));
    text += file.was_there ? " (finished before)\n" : "\n";
    for (std::size_t i = 0; file.figures && i < std::min<std::size_t>(file.figures->codebooks.size(), 4); ++i)
      text +=
          fmt::format("    {} x {}\n", file.figures->codebooks[i].first, file.figures->codebooks[i].second);
  }
  text += fmt::format("{} other files: --link {}\n", result.others.size(), options.link);
  for (const std::string& left : result.left_out) text += "left out: " + printable(left) + "\n";
  if (options.repack.dry_run)
    text +=
        fmt::format("to write: {}; room for {}\nmemory: {} with {} threads\n", exact_size(result.to_write),
                    short_size(result.free), exact_size(result.memory.total), result.memory.workers);
  return text;
}

int run(Context& context, const BuildOptions& options) {
  if (options.output.group_shared) share_with_group(context);
  RepackOptions repack_options = options.repack;
  repack_options.granularity = parse_granularity(options.granularity);
  repack_options.check_space = !options.output.no_space_check;
  repack_options.link = parse_link_mode(options.link);
  if (!options.stats_out.empty()) {
    refuse_input(context, options.stats_out, repack_options.source);
    // It must not replace a file of the new checkpoint either.
    if (is_inside(resolved(context.os, options.stats_out), resolved(context.os, repack_options.target)) &&
        exists(context.os, join(repack_options.source, name_of(options.stats_out))))
      throw Error(ErrorCode::usage, options.stats_out,
                  "is the name of a file of the checkpoint; choose another");
  }
  const RepackResult result = repack(context, repack_options);
  if (!repack_options.dry_run) suggest_audit(repack_options.target, repack_options.source);

  std::vector<FileFigures> figures;
  for (const RepackResult::File& file : result.files)
    if (file.figures) figures.push_back(*file.figures);
  const auto stats = stats_json(repack_options.granularity, repack_options.levels, figures);
  if (!options.stats_out.empty() && !repack_options.dry_run)
    write_output(context, options.stats_out, stats.dump(1) + "\n");
  if (options.json)
    print_json(stats);
  else
    print_result(text_of(result, options));
  return 0;
}

}  // namespace

void add_build(Subcommands& commands) {
  commands.add<BuildOptions>("build", "Write a checkpoint with repacked experts", declare, run);
}

}  // namespace planesmith
