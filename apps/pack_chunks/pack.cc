#include "chunks/pack.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/json.h"
#include "base/size.h"
#include "base/text.h"
#include "common/output_flags.h"
#include "pack_chunks/commands.h"

namespace planesmith {
namespace {

struct PackFlags {
  chunks::PackOptions options;
  std::string part_size = "16GB", frame_size = "16MiB", hash = "both";
  bool dry_run = false, to_stdout = false, json = false;
  OutputFlags output;
};

void declare(CLI::App& app, PackFlags& flags) {
  app.add_option("SOURCE", flags.options.sources,
                 "Files and directories; named in the archive relative to their parent")
      ->required();
  app.add_option("--name", flags.options.name,
                 "Name of the set: NAME.tar.zst.part.000, ..., manifest.NAME.json, SHA256SUMS.NAME");
  app.add_option("--as", flags.options.as, "Name of the source in the archive (default: its own name)");
  app.add_flag("--dereference", flags.options.dereference,
               "Pack the targets of symbolic links instead of the links");
  app.add_option("-o,--out", flags.options.out, "Directory for the parts");
  app.add_option("--part-size", flags.part_size,
                 "Largest size of a part, in bytes or with a unit (16GB, 4GiB)")
      ->capture_default_str();
  app.add_option("--frame-size", flags.frame_size,
                 "Content of one independent frame, in bytes or with a unit")
      ->capture_default_str();
  app.add_option("--level", flags.options.level, "zstd level, 0 to 19; 0 stores without compressing")
      ->capture_default_str();
  app.add_option("--hash", flags.hash, "Digests of the parts: xxh3, sha256 or both")
      ->check(CLI::IsMember({"xxh3", "sha256", "both"}))
      ->capture_default_str();
  app.add_flag("--stdout", flags.to_stdout, "Write one stream to standard output: no parts, no manifest");
  app.add_flag("--recheck", flags.options.recheck,
               "Verify the content of finished parts before continuing, not only record and size");
  app.add_flag("-f,--force", flags.options.force, "Replace what is there under this name");
  app.add_flag("-n,--dry-run", flags.dry_run, "Check and show the plan, write nothing");
  add_output_flags(app, flags.output);
  app.add_flag("--json", flags.json, "Print the result as JSON");
}

void show_plan(const chunks::PackPlan& plan, const chunks::PackOptions& options, bool json) {
  if (json) {
    print_json({{"members", plan.layout.members().size()},
                {"content_bytes", plan.content_size()},
                {"stream_bytes", plan.layout.size()},
                {"frames", plan.grid.frames()},
                {"parts", plan.grid.parts()},
                {"most_bytes", plan.most_bytes},
                {"threads", plan.lanes.threads},
                {"memory_bytes", plan.memory}});
    return;
  }
  std::string text;
  for (const chunks::Member& member : plan.layout.members())
    text += fmt::format("{:>15}  {}\n", member.size, printable(member.path));
  print_result(text + fmt::format("{} members, {} of content, a tar of {}\n"
                                  "{} parts of up to {}, at most {} in all, in {} frames of {}\n"
                                  "{} threads, {} of buffers\n",
                                  plan.layout.members().size(), exact_size(plan.content_size()),
                                  exact_size(plan.layout.size()), plan.grid.parts(),
                                  exact_size(options.part_size), exact_size(plan.most_bytes),
                                  plan.grid.frames(), exact_size(options.frame_size), plan.lanes.threads,
                                  exact_size(plan.memory)));
}

void show_result(const chunks::PackResult& result, const chunks::PackPlan& plan, bool json) {
  const chunks::ChunkManifest& m = result.manifest;
  if (json) {
    Json parts = Json::array();
    for (const FileEntry& part : m.parts)
      parts.push_back({{"path", part.path}, {"size", part.size}, {"sha256", part.sha256}});
    print_json({{"name", m.name},
                {"manifest", result.manifest_path},
                {"parts", std::move(parts)},
                {"parts_kept", result.parts_kept},
                {"members", m.layout.members().size()},
                {"content_bytes", plan.content_size()},
                {"stream_bytes", m.layout.size()},
                {"packed_bytes", m.packed_size()}});
    return;
  }
  print_result(fmt::format("{}: {} members, {} of content in {} parts, {}, ratio {:.3f}\n",
                           printable(result.manifest_path), m.layout.members().size(),
                           exact_size(plan.content_size()), m.parts.size(), exact_size(m.packed_size()),
                           static_cast<double>(m.layout.size()) / static_cast<double>(m.packed_size())));
}

int run(Context& context, const PackFlags& flags) {
  if (flags.output.group_shared) share_with_group(context);
  chunks::PackOptions options = flags.options;
  options.check_space = !flags.output.no_space_check;
  options.part_size = parse_size(flags.part_size, "--part-size");
  options.frame_size = parse_size(flags.frame_size, "--frame-size");
  options.xxh3 = HashChoice(flags.hash).xxh3;
  options.sha256 = HashChoice(flags.hash).sha256;
  const auto usage = [](const char* what) { return Error(ErrorCode::usage, "", what); };
  if (flags.to_stdout && (!options.out.empty() || flags.json))
    throw usage("--stdout cannot be combined with --out or --json");
  if (!flags.to_stdout && (options.name.empty() || options.out.empty()))
    throw usage("--name and --out are required (or --stdout)");
  if (options.name.find('/') != options.name.npos || options.name == "." || options.name == "..")
    throw usage("--name: must be a file name without '/'");
  if (has_control_characters(options.name))
    throw usage("--name has control characters, which lists of digests cannot hold");
  if (flags.to_stdout && isatty(STDOUT_FILENO))
    throw usage("--stdout: standard output is a terminal; redirect it");
  context.progress.say(fmt::format("parts of at most {}, frames of {}, level {}",
                                   exact_size(options.part_size), exact_size(options.frame_size),
                                   options.level));
  const chunks::PackPlan plan = chunks::plan_pack(options, context);
  if (flags.dry_run)
    show_plan(plan, options, flags.json);
  else if (flags.to_stdout)
    chunks::pack_to_stream(plan, options, STDOUT_FILENO, context);
  else
    show_result(chunks::pack(plan, options, context), plan, flags.json);
  if (!flags.dry_run && !flags.to_stdout)
    suggest_next(fmt::format("pack-chunks verify {} --name {}", shell_quoted(options.out),
                             shell_quoted(options.name)));
  return 0;
}

}  // namespace

void add_pack(Subcommands& commands) {
  commands.add<PackFlags>("pack", "Pack files and directories into parts", declare, run);
}

}  // namespace planesmith
