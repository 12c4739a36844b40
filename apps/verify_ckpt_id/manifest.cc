// verify-ckpt-id manifest and verify: any tree of files, and whether it is still the same.
#include <fmt/format.h>

#include "base/file.h"
#include "base/text.h"
#include "common/output.h"
#include "manifest/foreign.h"
#include "manifest/make_manifest.h"
#include "manifest/tree.h"
#include "verify/verify_files.h"
#include "verify_ckpt_id/commands.h"

namespace planesmith {
namespace {

CLI::Option* add_hash_flag(CLI::App& app, std::string& hash, const std::string& description) {
  return app.add_option("--hash", hash, description)->check(CLI::IsMember({"xxh3", "sha256", "both"}));
}
Hashes hashes_of(const std::string& hash) {
  return {.xxh3 = hash != "sha256", .sha256 = hash != "xxh3"};
}

// --- manifest ---

struct ManifestOptions {
  std::vector<std::string> paths;
  std::string out, hash = "both";
};

void declare_manifest(CLI::App& app, ManifestOptions& options) {
  app.add_option("path", options.paths, "Directories and files; links are recorded as links")->required();
  app.add_option("-o,--out", options.out, "The manifest to write; paths in it are relative to its directory")
      ->required();
  add_hash_flag(app, options.hash, "Digests to record")->capture_default_str();
}

// A slip of the name must not cost the file that was to be recorded.
void refuse_other_file(const Context& context, const std::string& path) {
  if (!exists(context.os, path)) return;
  if (const struct stat st = status(context.os, path); !S_ISREG(st.st_mode) || st.st_size == 0) return;
  try {
    read_manifest(context.os, path);
  } catch (const Error&) {
    throw Error(path, "is there already and is not a manifest; remove it, or choose another name");
  }
}

int run_manifest(Context& context, const ManifestOptions& options) {
  refuse_other_file(context, options.out);
  const TreeManifest made = make_manifest(context, options.paths, options.out, hashes_of(options.hash));
  write_output(context, options.out, to_json(made.manifest));
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
        fmt::format("{} links lead to what is not in the manifest: they are recorded as links, without it (a "
                    "copy made with cp -rlL has the files themselves)",
                    out));
  print_result(fmt::format("{}: {} files, {}\n", printable(options.out), made.manifest.files.size(),
                           exact_size(bytes)));
  return 0;
}

// --- verify ---

struct VerifyFlags {
  std::string manifest, root, hash, hf_tree;
  bool quick = false, allow_extra = false, json = false;
};

void declare_verify(CLI::App& app, VerifyFlags& flags) {
  app.add_option("manifest", flags.manifest,
                 "A manifest, what sha256sum wrote, or a Hugging Face tree listing saved as JSON")
      ->required();
  app.add_option("--root", flags.root, "Directory of the files (default: the manifest's)");
  app.add_flag("--quick", flags.quick, "Compare names, kinds and sizes, and read no contents");
  add_hash_flag(app, flags.hash, "Digest to compare (default: xxh3 where the manifest has it, else sha256)");
  app.add_flag("--allow-extra", flags.allow_extra,
               "Files that the manifest does not list are not a difference");
  app.add_option(
      "--hf-tree", flags.hf_tree,
      "Also compare with this listing of a Hugging Face repository (the API's tree, recursive, saved as "
      "JSON), so that an upload is checked without a download");
  app.add_flag("--json", flags.json, "Print one JSON document");
}

int run_verify(Context& context, const VerifyFlags& flags) {
  const std::string text = read_text(context.os, flags.manifest, kMostManifestBytes);
  Manifest manifest = read_any_manifest(text, flags.manifest);
  VerifyOptions options{.root = flags.root.empty() ? parent_of(flags.manifest) : flags.root,
                        .manifest_path = flags.manifest,
                        .quick = flags.quick,
                        .allow_extra = flags.allow_extra};
  if (!flags.hash.empty()) options.hashes = hashes_of(flags.hash);
  if (!flags.root.empty()) fit_to_root(context.os, manifest, options.root);

  Verification result = verify_files(context, manifest, text, options);
  if (!flags.hf_tree.empty()) {
    const std::vector<FileEntry> listing =
        parse_hf_tree(read_text(context.os, flags.hf_tree, kMostManifestBytes), flags.hf_tree);
    const std::vector<Difference> remote = compare_with_listing(context, manifest, listing, options);
    result.differences.insert(result.differences.end(), remote.begin(), remote.end());
  }
  print_result(flags.json ? pretty(to_json(manifest, result, options)) : to_text(manifest, result, options));
  return result.ok() ? 0 : static_cast<int>(ErrorCode::difference);
}

}  // namespace

void add_manifest(Subcommands& commands) {
  commands.add<ManifestOptions>("manifest", "Record what files there are and what is in them",
                                declare_manifest, run_manifest);
  commands.add<VerifyFlags>(
      "verify", "Compare files with a manifest; never writes where they are. Exit status 3: they differ",
      declare_verify, run_verify);
}

}  // namespace planesmith
