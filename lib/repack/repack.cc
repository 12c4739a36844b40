#include "repack/repack.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/space.h"
#include "manifest/profile.h"
#include "quant/kernels.h"
#include "repack/source_files.h"

namespace planesmith {
namespace {

// Reads the finished files and removes from `there` those whose content is wrong.
void recheck(const Context& context, const RepackRun& run, RepackTarget& target,
             std::vector<std::optional<FileFigures>>& there) {
  std::vector<bool> chosen(there.size());
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < there.size(); ++i)
    if ((chosen[i] = there[i].has_value())) bytes += run.files[i].bytes;
  context.progress.begin("recheck", bytes);
  run_repack(context, run, chosen, run.files.size(), [&](const RepackFile& file) {
    return target.checker(file, [&](bool same) {
      if (same) return;
      context.progress.say(file.name + " has wrong content; it is written again");
      there[static_cast<std::size_t>(&file - run.files.data())].reset();
    });
  });
  context.progress.end();
}

}  // namespace

RepackResult repack(const Context& context, const RepackOptions& options) {
  const Checkpoint checkpoint = Checkpoint::open(context, options.source);
  const Model model = find_experts(checkpoint);
  say_profile(context, model.geometry);
  const Remapper remapper(options.granularity, options.levels, choose_kernels(options.isa));
  const RepackMemory memory = share_memory(context, options.granularity, model.geometry);

  std::vector<RepackFile> files = plan_repack(checkpoint, model, options.granularity, memory.buffer, {});
  const std::size_t rewritten = files.size();
  std::vector<std::string> names;
  for (const RepackFile& file : files) names.push_back(file.name);
  const SourceFiles others(context, options.source, std::move(names));
  if (options.link == LinkMode::copy)
    files = plan_repack(checkpoint, model, options.granularity, memory.buffer, others.files);

  RepackTarget target(context, {&checkpoint}, options.target,
                      {{"granularity", name(options.granularity)},
                       {"levels", options.levels},
                       {"source", fingerprint(checkpoint)}},
                      options.force);
  if (!options.dry_run) target.open();

  std::vector<std::optional<FileFigures>> there(files.size());
  for (std::size_t i = 0; i < files.size(); ++i) there[i] = target.finished(files[i]);
  const RepackRun run{options.source, files, remapper,
                      options.granularity == Granularity::tensor || options.levels < kGridLevels, memory};
  if (options.recheck && !options.dry_run) recheck(context, run, target, there);

  RepackResult result;
  result.others = others.files;
  result.left_out = others.left_out;
  result.free = target.free_bytes();
  result.memory = memory;
  std::vector<bool> missing(files.size());
  std::vector<const RepackFile*> to_write;
  for (std::size_t i = 0; i < files.size(); ++i) {
    missing[i] = !there[i];
    if (!missing[i]) continue;
    result.to_write += files[i].bytes;
    to_write.push_back(&files[i]);
  }
  if (options.check_space) require_space(context.os, target.directory(), target.space_needed(to_write, 1));
  if (!options.dry_run) {
    context.progress.begin("repack", result.to_write);
    run_repack(context, run, missing, target.files_at_once(to_write),
               [&](const RepackFile& file) { return target.writer(file); });
    context.progress.end();
    if (options.link != LinkMode::copy)
      for (const NamedSize& file : others.files) target.link(file, options.link);
  }
  for (std::size_t i = 0; i < rewritten; ++i)
    result.files.push_back({files[i], !missing[i], missing[i] ? target.finished(files[i]) : there[i]});
  return result;
}

}  // namespace planesmith
