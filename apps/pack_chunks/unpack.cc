#include "chunks/unpack.h"

#include <fmt/format.h>
#include <unistd.h>

#include "base/json.h"
#include "base/paths.h"
#include "base/size.h"
#include "common/output_flags.h"
#include "hub/next_step.h"
#include "pack_chunks/commands.h"

namespace planesmith {
namespace {

struct UnpackFlags {
  chunks::UnpackOptions options;
  OutputFlags output;
  std::vector<std::string> inputs;
  std::string name, manifest;
  bool json = false;
};

void declare(CLI::App& app, UnpackFlags& flags) {
  app.add_option("INPUT", flags.inputs,
                 "Directory of the parts, part files in any order, or - for standard input")
      ->required();
  app.add_option("--name", flags.name, "Which set, where there are several");
  app.add_option("--manifest", flags.manifest,
                 "Manifest of the parts (default: manifest.NAME.json beside them)");
  app.add_option("-C,-o,--out", flags.options.out, "Directory to unpack into")->capture_default_str();
  app.add_option("--include", flags.options.include,
                 "Unpack only members that match this glob, and what is in them; may be repeated");
  app.add_option("--exclude", flags.options.exclude,
                 "Leave out members that match this glob; may be repeated");
  app.add_flag("--stream-delete", flags.options.stream_delete,
               "Remove each part once its content is durable");
  app.add_flag("--recheck", flags.options.recheck,
               "Compare the content of finished files with the manifest, not only record and size");
  app.add_flag("--preserve-modes", flags.options.preserve_modes,
               "Modes as the archive has them; default: as the umask leaves them, never writable for all");
  app.add_flag("-f,--force", flags.options.force, "Replace files that are there with other contents");
  app.add_flag("-n,--dry-run", flags.options.dry_run, "Check and count, write nothing");
  add_output_flags(app, flags.output);
  app.add_flag("--json", flags.json, "Print the result as JSON");
}

chunks::ChunkSet set_of(const UnpackFlags& flags, bool from_stdin, const Context& context) {
  if (!from_stdin) return chunks::find_chunks(flags.inputs, flags.name, flags.manifest, context);
  chunks::ChunkSet set{
      .name = flags.name, .manifest = {}, .manifest_path = flags.manifest, .parts = {}, .extra = {}};
  if (!flags.manifest.empty()) set.manifest = chunks::read_chunk_manifest(context, flags.manifest);
  return set;
}

// Paths of the set's top directories; none without a manifest.
std::vector<std::string> places_of(const chunks::ChunkSet& set, const std::string& out) {
  std::vector<std::string> places;
  if (!set.manifest) return places;
  for (const chunks::Member& member : set.manifest->layout.members())
    if (std::string place = join(out, member.path.substr(0, member.path.find('/')));
        places.empty() || places.back() != place)
      places.push_back(std::move(place));
  return places;
}

int run(Context& context, const UnpackFlags& flags) {
  chunks::UnpackOptions options = flags.options;
  options.check_space = !flags.output.no_space_check;
  if (flags.output.group_shared) share_with_group(context);
  const bool from_stdin = flags.inputs == std::vector<std::string>{"-"};
  const chunks::ChunkSet set = set_of(flags, from_stdin, context);
  const chunks::UnpackResult result = chunks::unpack(set, from_stdin ? STDIN_FILENO : -1, options, context);
  if (!flags.options.dry_run) suggest_next(hub::next_step(places_of(set, flags.options.out), context));
  if (flags.json) {
    print_json({{"name", set.name},
                {"out", flags.options.out},
                {"files", result.files},
                {"content_bytes", result.bytes},
                {"files_kept", result.kept},
                {"frames", result.frames},
                {"packed_bytes", result.packed_bytes},
                {"manifest", set.manifest.has_value()}});
    return 0;
  }
  print_result(fmt::format("{}{} files, {} of content{}{}\n", flags.options.dry_run ? "to unpack: " : "",
                           result.files, exact_size(result.bytes),
                           result.kept == 0 ? "" : fmt::format(", {} there already", result.kept),
                           set.manifest ? "" : "; there was no manifest to compare with"));
  return 0;
}

}  // namespace

void add_unpack(Subcommands& commands) {
  commands.add<UnpackFlags>("unpack", "Unpack parts, or what tar and zstd made", declare, run);
}

}  // namespace planesmith
