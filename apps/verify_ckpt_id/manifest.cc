// verify-ckpt-id manifest: records files and their digests.
#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "common/output.h"
#include "manifest/make_manifest.h"
#include "manifest/tree.h"
#include "verify_ckpt_id/commands.h"
#include "verify_ckpt_id/hash_flag.h"

namespace planesmith {
namespace {

struct ManifestOptions {
  std::vector<std::string> paths;
  std::string out, hash = "both";
  bool json = false;
};

void declare_manifest(CLI::App& app, ManifestOptions& options) {
  app.add_option("PATH", options.paths, "Directories and files; links are recorded as links")->required();
  app.add_option("-o,--out", options.out, "The manifest to write; paths in it are relative to its directory")
      ->required();
  add_hash_flag(app, options.hash, "Digests to record")->capture_default_str();
  app.add_flag("--json", options.json, "Print one JSON document");
}

// A mistyped --out must not overwrite a file that was to be recorded.
void refuse_other_file(const Context& context, const std::string& path) {
  if (!exists(context.os, path)) return;
  if (const struct stat st = status(context.os, path); !S_ISREG(st.st_mode) || st.st_size == 0) return;
  try {
    read_manifest(context.os, path, context.memory);
  } catch (const Error&) {
    throw Error(path, "is there already and is not a manifest; remove it, or choose another name");
  }
}

int run_manifest(Context& context, const ManifestOptions& options) {
  refuse_other_file(context, options.out);
  const TreeManifest made = make_manifest(context, options.paths, options.out, hashes_of(options.hash));
  write_output(context, options.out, to_json(made.manifest));
  suggest_next(fmt::format("verify-ckpt-id verify {}{}", shell_quoted(options.out),
                           made.root.empty() ? "" : " --root " + shell_quoted(made.root)));
  if (!made.root.empty())
    context.progress.say(
        fmt::format("the files are not below the manifest's directory: verify them with --root {}",
                    shell_quoted(made.root)));
  std::uint64_t bytes = 0, out = 0;
  for (const FileEntry& file : made.manifest.files) {
    bytes += file.size;
    out += file.link_target && !has_target(made.manifest, file) ? 1 : 0;
  }
  if (out != 0)
    context.progress.say(
        fmt::format("{} links lead to files outside the manifest; only the links are recorded (a copy made "
                    "with cp -rlL has the files themselves)",
                    out));
  if (options.json)
    print_json({{"manifest", options.out}, {"files", made.manifest.files.size()}, {"bytes", bytes}});
  else
    print_result(fmt::format("{}: {} files, {}\n", printable(options.out), made.manifest.files.size(),
                             exact_size(bytes)));
  return 0;
}

}  // namespace

void add_manifest(Subcommands& commands) {
  commands.add<ManifestOptions>("manifest", "Record files and their digests", declare_manifest, run_manifest);
}

}  // namespace planesmith
