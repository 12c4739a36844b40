// What packing will do, and whether it can.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file_status.h"
#include "base/paths.h"
#include "base/space.h"
#include "base/text.h"
#include "chunks/chunk_set.h"
#include "chunks/frame.h"
#include "chunks/pack.h"
#include "chunks/part_maker.h"
#include "manifest/manifest.h"

namespace planesmith::chunks {
namespace {

void check_options(const PackOptions& options) {
  const auto refuse = [](const std::string& why) { return Error(ErrorCode::usage, "", why); };
  if (options.level < 0 || options.level > kMaxLevel)
    throw refuse(fmt::format("--level: must be from 0 to {}", kMaxLevel));
  if (!options.as.empty() && options.sources.size() != 1)
    throw refuse("--as names the one source in the archive; with several each keeps its own name");
  if (!options.as.empty() && !is_inner_path(options.as))
    throw refuse("--as: must be a relative path without '.' and '..'");
  if (options.frame_size < kMinFrameSize || options.frame_size > kMaxFrameSize)
    throw refuse(fmt::format("--frame-size: {} is not between {} and {}", exact_size(options.frame_size),
                             short_size(kMinFrameSize), short_size(kMaxFrameSize)));
  if (options.part_size < frame_bound(options.frame_size))
    throw refuse(fmt::format(
        "--part-size: {} is less than what one frame of {} may compress to, {} bytes; a frame is never split",
        exact_size(options.part_size), short_size(options.frame_size), frame_bound(options.frame_size)));
}

void check_out_is_outside(const PackOptions& options, const Context& context) {
  if (options.out.empty()) return;
  const std::string out = real_path(nearest_existing(context.os, options.out));
  for (const std::string& source : options.sources) {
    if (!exists(context.os, source)) continue;  // scan() reports it
    if (is_inside(out, real_path(source)))
      throw Error(ErrorCode::usage, options.out,
                  fmt::format("lies inside {}, which is to be packed; choose another directory", source));
  }
}

// Bytes of this name's parts, finished or not, which this run continues or replaces.
std::uint64_t bytes_to_reuse(const PackOptions& options, const Context& context) {
  std::uint64_t sum = 0;
  const auto add = [&](const std::string& path) {
    struct stat st {};  // a missing file is not an error: another run may just have renamed it
    if (context.os.lstat(path.c_str(), &st) == 0 && S_ISREG(st.st_mode))
      sum += static_cast<std::uint64_t>(st.st_size);
  };
  if (!exists(context.os, options.out)) return 0;
  for (const std::string& file : files_of_set(context.os, options.out, options.name))
    add(join(options.out, file));
  const std::string unfinished = join(options.out, "." + options.name + ".pack");
  if (!accessible(context.os, unfinished, R_OK)) return sum;
  try {
    for (const std::string& file : list_dir(context.os, unfinished)) add(join(unfinished, file));
  } catch (const Error& error) {
    if (error.label() != "not-found") throw;  // not found: another run has just removed it
  }
  return sum;
}

void check_space(const PackPlan& plan, const PackOptions& options, const Context& context) {
  if (options.out.empty() || !options.check_space) return;
  const std::uint64_t reused = bytes_to_reuse(options, context);
  if (options.level == 0) return require_space(context.os, options.out, plan.most_bytes, reused);
  const std::optional<std::uint64_t> free = known_free_space(context.os, options.out);
  if (!free || plan.most_bytes <= *free + reused) return;
  context.progress.say(
      fmt::format("{} has room for {}; the parts take {} if nothing can be compressed. If the disk fills up, "
                  "free some space and run the same command again to continue",
                  printable(options.out), exact_size(*free + reused), exact_size(plan.most_bytes)));
}

}  // namespace

std::uint64_t PackPlan::content_size() const {
  std::uint64_t sum = 0;
  for (const Member& member : layout.members()) sum += member.size;
  return sum;
}

PackPlan plan_pack(const PackOptions& options, const Context& context) {
  check_options(options);
  check_out_is_outside(options, context);
  Tree tree = scan(options, context);
  PackPlan plan{.layout = Layout::arrange(std::move(tree.members)), .origins = std::move(tree.origins)};
  plan.grid = {plan.layout.size(), options.frame_size,
               part_content_for(options.part_size, options.frame_size)};
  for (std::size_t f = 0; f < plan.grid.frames(); ++f) plan.most_bytes += stored_size(plan.grid.size(f));
  plan.lanes = lanes_for(plan.grid, options.level, plan.grid.parts(), context, plan.memory);
  check_space(plan, options, context);
  return plan;
}

}  // namespace planesmith::chunks
