// Makes synthetic checkpoints for tests, the demo and benchmarks.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "checkpoint/model.h"
#include "checkpoint/tensor_name.h"
#include "common/program.h"
#include "synthetic/model.h"
#include "synthetic/weights.h"
#include "synthetic/write.h"

using namespace planesmith;
using namespace planesmith::synthetic;

namespace {

struct Options {
  std::string out, headers, family = "mxfp4", fill;
  std::uint64_t layers = 2, experts = 8, hidden = 512, intermediate = 256, dense = 1, mtp = 1, shards = 2,
                seed = 1;
};

void declare(CLI::App& app, Options& o) {
  app.add_option("-o,--out", o.out, "Directory to make; it must be absent or empty")->required();
  app.add_option("--from-headers", o.headers,
                 "Directory with a real checkpoint's config.json and <shard>.safetensors.json");
  app.add_option("--family", o.family,
                 "Without --from-headers: mxfp4 (DeepSeek-V4), fp8, nvfp4 (GLM), kimi (NVFP4)")
      ->check(CLI::IsMember({"mxfp4", "fp8", "nvfp4", "kimi"}))
      ->capture_default_str();
  app.add_option("--layers", o.layers, "Transformer layers, dense ones counted")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{4096}))
      ->capture_default_str();
  app.add_option("--experts", o.experts, "Routed experts of a layer")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{65536}))
      ->capture_default_str();
  app.add_option("--hidden", o.hidden, "Hidden size, a multiple of 64")->capture_default_str();
  app.add_option("--intermediate", o.intermediate, "An expert's width, a multiple of 64")
      ->capture_default_str();
  app.add_option("--first-dense", o.dense, "Dense layers before the sparse ones; none for mxfp4")
      ->capture_default_str();
  app.add_option("--mtp", o.mtp, "Drafter layers")->capture_default_str();
  app.add_option("--shards", o.shards, "Files to cut it into")
      ->check(CLI::Range(1, 99999))
      ->capture_default_str();
  app.add_option("--seed", o.seed, "The same seed gives the same bytes")->capture_default_str();
  app.add_option(
      "--fill-layers", o.fill,
      "Layers to fill (0-1,7), all (with embeddings, head and drafter) or none; the rest are holes.\n"
      "Default: all, with --from-headers none");
}

Style style_of(const std::string& family) {
  if (family == "fp8") return Style::glm_fp8;
  if (family == "nvfp4") return Style::glm_nvfp4;
  return family == "kimi" ? Style::kimi_nvfp4 : Style::deepseek_v4;
}

// Null where nothing is wanted.
std::function<bool(const Tensor&)> wanted_by(const std::string& fill, std::uint64_t layer_count) {
  if (fill == "none") return nullptr;
  if (fill == "all") return [](const Tensor&) { return true; };
  const std::vector<std::uint64_t> layers = parse_number_list(fill, "--fill-layers");
  return [=](const Tensor& tensor) {
    const TensorName name = parse_tensor_name(tensor.name, layer_count, tensor.shape.size());
    return name.main_layer && std::binary_search(layers.begin(), layers.end(), name.layer);
  };
}

int run(const Options& o, const Context& context) {
  if (exists(context.os, o.out) && !list_dir(context.os, o.out).empty())
    throw Error(o.out, "is not empty; give another directory or remove it");
  std::string config;
  std::vector<ShardHeader> shards;
  if (!o.headers.empty()) {
    config = read_text(context.os, join(o.headers, "config.json"), kMiB);
    shards = kept_headers(context, o.headers);
  } else {
    const Spec spec{style_of(o.family), {o.layers, o.experts, o.hidden, o.intermediate}, o.dense, o.mtp};
    format::rank_shape(spec.geometry, 1);
    config = pretty(config_of(spec));
    shards = cut_into_shards(tensors_of(spec), o.shards);
  }
  const format::Geometry geometry = config_geometry(parse_json(config, "config.json"), "config.json");
  const auto wanted = wanted_by(!o.fill.empty()     ? o.fill
                                : o.headers.empty() ? "all"
                                                    : "none",
                                geometry.layers);
  make_dirs(context.os, o.out);
  const std::uint64_t total = write_shards(context, o.out, shards);
  write_atomically(context.os, join(o.out, "model.safetensors.index.json"), index_json(shards, total));
  write_atomically(context.os, join(o.out, "tokenizer.json"),
                   pretty(Json{{"version", "1.0"}, {"truncation", nullptr}, {"padding", nullptr}}));
  write_atomically(context.os, join(o.out, "config.json"), config);

  const std::uint64_t filled =
      wanted == nullptr ? 0 : fill_shards(context, o.out, shards, Weights(o.seed, geometry.experts), wanted);
  print_result(fmt::format("{}: {} shards, {}, filled {}\n", o.out, shards.size(), exact_size(total),
                           exact_size(filled)));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Makes a synthetic checkpoint: real names, dtypes and statistics, made-up weights.",
               "make-checkpoint");
  CommonFlags flags;
  Options options;
  declare(app, options);
  add_common_flags(app, flags);
  return run_program(app, argc, argv, flags, [&](Context& context) { return run(options, context); });
}
