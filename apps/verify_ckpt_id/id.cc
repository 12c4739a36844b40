// verify-ckpt-id id: the content id, and the engine's own.
#include <fmt/format.h>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/identity.h"
#include "checkpoint/model_manifest.h"
#include "verify_ckpt_id/commands.h"

namespace planesmith {
namespace {

struct IdOptions {
  std::string checkpoint;
  std::optional<std::string> served_path;
  std::string revision;
  bool no_content = false, recompute = false, json = false, manifest_v1 = false, write_marker = false;
};

void declare(CLI::App& app, IdOptions& options) {
  app.add_option("CHECKPOINT", options.checkpoint, "Directory of the checkpoint")->required();
  CLI::Option* const served = app.add_option(
      "--served-path", options.served_path,
      "Also print the id that the engine computes when it is started with this path (default: do not)");
  app.add_option("--revision", options.revision,
                 "Commit or revision that the engine is started with (default: none)")
      ->needs(served);
  app.add_flag("--no-content", options.no_content,
               "Do not print the content id, which needs every byte hashed");
  CLI::Option* const manifest = app.add_flag(
      "--manifest-v1", options.manifest_v1,
      "Also print the id that the engine's model list publishes for a model, computed from the same digests");
  app.add_flag("--write-marker", options.write_marker,
               "Write that id into the checkpoint's directory, as the engine's launcher leaves it there "
               "(.vllm-moet-snapshot.json)")
      ->needs(manifest);
  app.add_flag("--recompute", options.recompute, "Hash again instead of reusing known digests");
  app.add_flag("--json", options.json, "Print one JSON document, with the digest of every file");
}

constexpr const char* kAdvice =
    "Pin the content id (VLLM_MOE_W2_CKPT_ID) if checkpoint or cache may be copied, moved or published. The "
    "engine's own id needs no pin, but changes as soon as the files are touched, copied or served from "
    "another path.";

// The repository is the served path if that is OWNER/REPO, else what the directory says of its origin.
void mark(Context& context, const IdOptions& options, const std::string& manifest_id) {
  HubOrigin origin = origin_of(context.os, options.checkpoint);
  const std::string served = options.served_path.value_or("");
  if (const std::size_t slash = served.find('/');
      slash != served.npos && slash != 0 && slash + 1 != served.size() && slash == served.rfind('/'))
    origin.repository = served;
  if (!options.revision.empty()) origin.commit = options.revision;
  write_marker(context.os, options.checkpoint, manifest_id, origin);
  context.progress.say(fmt::format("wrote {}", join(options.checkpoint, kMarkerName)));
  if (origin.repository.empty() || origin.commit.empty())
    context.progress.say(
        "the marker does not name the repository and its commit, which are not known here, and the engine's "
        "launcher asks for both; give --served-path OWNER/REPO --revision COMMIT");
}

int run(Context& context, const IdOptions& options) {
  struct stat st {};
  const bool local = context.os.stat(options.checkpoint.c_str(), &st) == 0 && S_ISDIR(st.st_mode);
  if (!local && !options.served_path)
    throw Error(options.checkpoint,
                "is not a directory here; give the directory that holds config.json and the shards");
  std::optional<std::string> engine;
  if (options.served_path && !local) {
    engine = engine_id_of_remote(*options.served_path, options.revision);
    context.progress.say(
        fmt::format("{}: is not a directory here, so this is the id of a model that the server fetches; it "
                    "has no content id",
                    options.checkpoint));
  } else if (options.served_path) {
    engine =
        engine_id(*options.served_path, options.revision, read_checkpoint_stats(context, options.checkpoint));
  }
  std::optional<ContentId> content;
  if (options.no_content && !options.served_path && !options.manifest_v1)
    throw Error(ErrorCode::usage, "",
                "--no-content leaves nothing to print; add --served-path or --manifest-v1");
  if (options.manifest_v1 && !local)
    throw Error(options.checkpoint, "is not a directory here, and --manifest-v1 needs the files");
  if (local && (!options.no_content || options.manifest_v1)) {
    content = content_id(context, options.checkpoint, options.recompute);
    context.progress.say(fmt::format("{} hashed, {} known before", exact_size(content->bytes_hashed),
                                     exact_size(content->bytes_known)));
    for (const std::string& shard : content->by_download)
      context.progress.say(
          fmt::format("{}: its digest was taken from the hub client's metadata; the bytes were not read "
                      "(--recompute reads them)",
                      shard));
  }
  std::optional<std::string> manifest;
  if (options.manifest_v1) manifest = model_manifest_id(context, options.checkpoint, *content);
  if (options.write_marker) mark(context, options, *manifest);
  if (options.no_content) content.reset();
  context.progress.say(kAdvice);

  if (options.json) {
    Json out = Json::object();
    if (content) {
      out["content_id"] = content->id;
      out["files"] = content->sha256;
      out["digests_by_download"] = content->by_download;
    }
    if (engine) {
      out["engine_id"] = *engine;
      out["served_path"] = *options.served_path;
      out["revision"] = options.revision;
    }
    if (manifest) out["manifest_v1_id"] = *manifest;
    print_json(std::move(out));
  } else {
    std::vector<std::pair<const char*, std::string>> ids;
    if (content) ids.emplace_back("content ", content->id);
    if (engine) ids.emplace_back("engine  ", *engine);
    if (manifest) ids.emplace_back("manifest", *manifest);
    std::string text;
    for (const auto& [what, id] : ids) text += ids.size() == 1 ? id + "\n" : fmt::format("{} {}\n", what, id);
    print_result(text);
  }
  return 0;
}

}  // namespace

void add_id(Subcommands& commands) {
  commands.add<IdOptions>(
      "id",
      "Print the content id of a checkpoint, and the engine's own where a served path is given; "
      "one id alone is printed bare",
      declare, run);
}

}  // namespace planesmith
