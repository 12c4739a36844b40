// Common to tests of the builders: the golden models, a scratch directory, a build, digests of a tree.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "pipeline/build.h"
#include "scratch.h"

namespace planesmith::test {

// For tests of bytes, not of durability: waiting for the disk thousands of times would take minutes.
class HastyOs : public Os {
  int fsync(int) override { return 0; }
  int fdatasync(int) override { return 0; }
};
inline Context hasty_context(int threads = 2) {
  static HastyOs os;
  Context context{.os = os};
  context.threads = threads;
  return context;
}

inline const std::vector<std::string> kGoldenModels = {"ds4-dspark-mini", "ds4-mini",     "fp8-blocks",
                                                       "fp8-edge",        "glm-fp8-mini", "glm-nvfp4-mini",
                                                       "kimi-nvfp4-mini", "nvfp4-edge"};

inline std::string golden(const std::string& name) {
  return std::string(SOURCE_DIR "/tests/golden/") + name;
}

// Path (relative, '/') -> SHA-256 of every regular file below a directory.
inline std::map<std::string, std::string> digests(const std::string& directory) {
  std::map<std::string, std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file())
      out[std::filesystem::relative(entry.path(), directory)] =
          sha256_hex(read_text(posix(), entry.path(), std::uint64_t{1} << 32));
  return out;
}

// The same without manifests, which the engine does not write.
inline std::map<std::string, std::string> engine_digests(const std::string& directory) {
  auto out = digests(directory);
  std::erase_if(out, [](const auto& file) { return file.first.ends_with("manifest.json"); });
  return out;
}

// A variant in expected.json: its files, and the options that ask for them.
struct Variant {
  std::string model, name, ckpt_id;
  PlanRequest request;
  std::map<std::string, std::string> files;
};

inline std::vector<Variant> golden_variants(const std::string& model) {
  const Json expected = read_json(posix(), golden(model) + "/expected.json");
  std::vector<Variant> out;
  for (const auto& [name, v] : expected.at("variants").items()) {
    Variant variant{model, name, expected.at("spec").at("ckpt_id"), {}, {}};
    variant.request.world = v.at("world");
    variant.request.zero_mode = format::parse_zero_mode(v.at("zero_mode").get<std::string>());
    variant.request.cache = !v.at("fp4").get<bool>()    ? format::Fp4Tier::none
                            : v.at("split").get<bool>() ? format::Fp4Tier::quintal
                                                        : format::Fp4Tier::nibble;
    variant.request.drafts = v.value("drafts", 0);
    for (const Json& tag : v.at("packs"))
      variant.request.tiers.push_back(v.at("split").get<bool>() && tag == "delta"
                                          ? format::Tier::deltaq
                                          : format::parse_tier(tag.get<std::string>()));
    for (const auto& [path, file] : v.at("files").items()) variant.files[path] = file.at("sha256");
    out.push_back(std::move(variant));
  }
  return out;
}

// Builds into <out>/planescache and <out>/store.
inline BuildReport build_into(const Context& context, const std::string& checkpoint_directory,
                              const PlanRequest& request, const std::string& ckpt_id, const std::string& out,
                              Trust trust = Trust::record,
                              const BackendChoice& choice = {"cpu", "auto", {}}) {
  const Checkpoint checkpoint = Checkpoint::open(context, checkpoint_directory);
  const Model model = find_experts(checkpoint, request.drafts);
  const Plan plan = make_plan(model, request);
  const BuildTarget target{ckpt_id, out + "/planescache", out + "/store", trust};
  const std::unique_ptr<Backend> backend = make_backend(choice);
  check_targets(context, checkpoint, plan, target);
  return build(context, checkpoint, model, plan, target, *backend);
}

}  // namespace planesmith::test
