#include "rewrite/translate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/budget.h"
#include "base/error.h"
#include "base/parallel.h"
#include "checkpoint/layout.h"
#include "format/slice.h"
#include "rewrite/float_experts.h"
#include "rewrite/recipe_text.h"
#include "rewrite/translate_jobs.h"

namespace planesmith {
namespace {

// The scheme that a module is translated to.
struct Target {
  Scheme scheme = Scheme::none;
  bool activations = false;
  std::uint64_t block_rows = 0, block_cols = 0;
  auto key() const { return std::tie(scheme, activations, block_rows, block_cols); }
  bool operator<(const Target& other) const { return key() < other.key(); }
};

class Translation {
 public:
  Translation(Os& os, const Checkpoint& checkpoint, const TranslateOptions& options)
      : checkpoint_(checkpoint),
        options_(options),
        recipe_(read_recipe(os, checkpoint.directory(), checkpoint.config())),
        modules_(find_modules(checkpoint, recipe_)),
        v4_(is_deepseek_v4(checkpoint.config())),
        shards_(checkpoint) {}

  TranslateResult run(const Context& context) {
    for (const QuantModule& module : modules_.quantized) by_name_[module.name] = &module;
    for (const QuantModule& module : modules_.quantized) refuse_unserved(module);
    refuse_incomplete();
    for (const QuantModule& module : modules_.quantized) add(module);
    if (result_.modules.empty())
      throw Error(
          checkpoint_.directory(),
          modules_.quantized.empty()
              ? "has no quantized modules; repack-experts quantize makes NVFP4 or MXFP4 of float experts"
              : fmt::format("is {}: its layout is served as it is, and there is nothing to translate",
                            recipe_.method.empty() ? "quantized already" : recipe_.title()));
    result_.from = recipe_.method.empty() ? "a layout that config.json does not name" : recipe_.title();
    Rewrite what;
    what.build = {{"command", "translate"}, {"lossy", options_.lossy}};
    write_config(context, what);
    if (!options_.lossy && !options_.rewrite.dry_run) refuse_out_of_reach(context);
    result_.files = rewrite(context, checkpoint_, shards_, what, options_.rewrite);
    return std::move(result_);
  }

 private:
  void refuse_unserved(const QuantModule& module) const {
    const bool compressed = recipe_.method == "compressed-tensors";
    switch (module.scheme) {
      case Scheme::nvfp4:
      case Scheme::fp8_block:
        return;
      case Scheme::mxfp4:
        if (!v4_ || module.name.find(".experts.") != std::string::npos) return;  // drafters' experts, too
        break;
      case Scheme::fp8_tensor:
        if (!module.expert && !compressed) return;
        break;
      default:
        break;
    }
    const View& weight = module.weight();
    throw Error(
        checkpoint_.shard_path(*weight.tensor),
        fmt::format(
            "'{}' is {} ({}{}{}), which the engine does not serve and no lossless translation makes served; "
            "start from the model's float weights: repack-experts quantize SOURCE TARGET --to nvfp4",
            module.name, describe(module.scheme), recipe_.method.empty() ? "no recipe" : recipe_.method,
            module.format.empty() ? "" : " ", module.format))
        .in_tensor(weight.tensor->name)
        .at(weight.tensor->described_at);
  }

  // A layer whose experts are not all here, or not all quantized, cannot be served in any layout.
  void refuse_incomplete() const {
    std::map<std::string, std::uint64_t> layers;  // "model.layers.1.mlp.experts" to its quantized weights
    for (const QuantModule& module : modules_.quantized)
      if (module.expert) ++layers[module.name.substr(0, module.name.find(".experts.") + 8)];
    if (layers.empty()) return;
    const std::uint64_t experts =
        config_geometry(checkpoint_.config(), join(checkpoint_.directory(), kConfigName)).experts;
    for (const auto& [stem, count] : layers)
      if (count != experts * kProjections)
        throw Error(checkpoint_.directory(),
                    fmt::format("'{}' has {} quantized expert weights; {} experts x 3 = {} were expected. Is "
                                "the download complete, and are all experts quantized?",
                                stem, count, experts, experts * kProjections));
  }

  void take(const View& view) {
    if (taken_.insert(view.tensor).second) shards_.replace(*view.tensor);
  }
  void add(const View& beside, std::unique_ptr<Job> job) { shards_.add(*beside.tensor, std::move(job)); }

  // Copies the bytes under this name; does nothing where name, dtype and shape are right already.
  void copy(const QuantModule& module, const View& view, std::string_view word, Dtype dtype,
            std::vector<std::uint64_t> shape) {
    const std::string name = fmt::format("{}.{}", module.name, word);
    if (view.whole() && view.tensor->name == name && view.dtype() == dtype && view.tensor->shape == shape)
      return;
    take(view);
    add(view, std::make_unique<CopyJob>(NewTensor{name, dtype, std::move(shape), {}, view.size},
                                        place_of(checkpoint_, view)));
    changed_ = true;
  }
  void widen(const QuantModule& module, const View& view, std::string_view word) {
    const std::string name = fmt::format("{}.{}", module.name, word);
    const FloatType type = float_type(checkpoint_, view);
    if (type == FloatType::f32) return copy(module, view, word, Dtype::f32, view.shape);
    take(view);
    add(view, std::make_unique<WidenJob>(name, view.shape, place_of(checkpoint_, view), type));
    changed_ = true;
  }
  void scalar(const QuantModule& module, std::string_view from, std::string_view inverse,
              std::string_view word) {
    if (const View* view = module.part(from)) {
      if (view->whole() && view->dtype() == Dtype::f32 &&
          view->tensor->name == fmt::format("{}.{}", module.name, word))
        return;
      take(*view);
      add(*view,
          std::make_unique<WidenJob>(fmt::format("{}.{}", module.name, word), std::vector<std::uint64_t>{},
                                     place_of(checkpoint_, *view), float_type(checkpoint_, *view)));
      changed_ = true;
    } else if (const View* reciprocal = module.part(inverse)) {
      take(*reciprocal);
      add(*reciprocal, std::make_unique<ReciprocalJob>(
                           fmt::format("{}.{}", module.name, word), reciprocal->tensor->name,
                           place_of(checkpoint_, *reciprocal), float_type(checkpoint_, *reciprocal)));
      changed_ = true;
    }
  }

  void add(const QuantModule& module) {
    changed_ = false;
    std::string what;
    Target target{module.scheme, module.activations, 0, 0};
    switch (module.scheme) {
      case Scheme::nvfp4:
        what = "NVFP4 renamed";
        target.activations =
            module.part({"input_scale", "input_global_scale"}) != nullptr || module.activations;
        copy(module, module.weight(), "weight", Dtype::u8, {module.rows, module.cols / 2});
        copy(module, module.scale(), "weight_scale", Dtype::f8_e4m3, module.scale().shape);
        scalar(module, "weight_scale_2", "weight_global_scale", "weight_scale_2");
        scalar(module, "input_scale", "input_global_scale", "input_scale");
        break;
      case Scheme::fp8_block: {
        const bool powers = module.scale().dtype() == Dtype::f8_e8m0 || module.scale().dtype() == Dtype::u8;
        what = powers ? "FP8 blocks split" : "FP8 blocks with float32 scales";
        target = {Scheme::fp8_block, true, module.block_rows, module.block_cols};
        const std::string_view word = module.part("scale") != nullptr ? "scale" : "weight_scale_inv";
        copy(module, module.weight(), "weight", Dtype::f8_e4m3, {module.rows, module.cols});
        if (powers)
          copy(module, module.scale(), word, Dtype::f8_e8m0, module.scale().shape);
        else
          widen(module, module.scale(), word);
        if (!changed_ && module.expert && !names_block_size(checkpoint_.config())) {
          what = "FP8 blocks whose size config.json lacks";
          changed_ = true;
        }
        break;
      }
      case Scheme::mxfp4:
        if (v4_) {
          what = "MXFP4 in DeepSeek-V4's layout";
          copy(module, module.weight(), "weight", Dtype::i8, {module.rows, module.cols / 2});
          copy(module, module.scale(), "scale", Dtype::f8_e8m0, module.scale().shape);
        } else {
          what = "MXFP4 as NVFP4";
          target.scheme = Scheme::nvfp4;
          cast(module);
          changed_ = true;
        }
        break;
      default:
        break;  // refuse_unserved() has found a served layout
    }
    targets_[target].push_back(&module);
    if (changed_)
      ++result_.modules[what];
    else
      ++result_.kept;
  }

  // Gate and up of the same parent share weight_scale_2, so one job makes both.
  void cast(const QuantModule& module) {
    const std::size_t dot = module.name.rfind('.');
    const std::string parent = module.name.substr(0, dot + 1), last = module.name.substr(dot + 1);
    std::vector<const QuantModule*> together = {&module};
    for (const auto& [gate, up] : {std::pair{"gate_proj", "up_proj"}, {"w1", "w3"}}) {
      const auto mate = by_name_.find(parent + (last == gate ? up : gate));
      if ((last != gate && last != up) || mate == by_name_.end() || mate->second->scheme != Scheme::mxfp4)
        continue;
      if (last == up)
        together.clear();  // its gate's job makes it
      else
        together.push_back(mate->second);
    }
    for (const auto& [word, view] : module.parts) take(view);
    if (together.empty()) return;
    auto job = std::make_unique<CastJob>(checkpoint_, std::move(together), options_.lossy);
    casts_.push_back(job.get());
    add(module.weight(), std::move(job));
  }

  // Called before the first write, so that a refused translation leaves nothing behind.
  void refuse_out_of_reach(const Context& context) const {
    struct Reader : JobIo {
      using JobIo::JobIo;
      void put(std::size_t, std::uint64_t, ConstBytes) override {}
    };
    const int workers = workers_within(context.memory, 0, JobIo::kScratchBytes, context.threads);
    const std::unique_ptr<Backend> backend = make_backend(options_.rewrite.backend);
    std::vector<std::unique_ptr<Reader>> readers(static_cast<std::size_t>(workers));
    parallel_for(casts_.size(), workers, [&](std::size_t i, int worker) {
      auto& reader = readers[static_cast<std::size_t>(worker)];
      if (!reader) reader = std::make_unique<Reader>(context, *backend, worker);
      casts_[i]->refuse_out_of_reach(*reader);
    });
  }

  // The names of the unquantized modules.
  std::vector<std::string> plain_names() const {
    return {modules_.unquantized.begin(), modules_.unquantized.end()};
  }
  std::vector<std::string> summary() const {
    std::set<std::string> quantized;
    for (const QuantModule& module : modules_.quantized) quantized.insert(module.name);
    return excluded_modules(quantized, modules_.unquantized);
  }

  void write_config(const Context& context, Rewrite& what) {
    std::set<Scheme> schemes;
    for (const auto& [target, modules] : targets_) schemes.insert(target.scheme);
    const bool fp8 = schemes == std::set{Scheme::fp8_block} ||
                     schemes == std::set{Scheme::fp8_block, Scheme::mxfp4} ||
                     schemes == std::set{Scheme::mxfp4};
    if (fp8) {
      std::set<std::pair<std::uint64_t, std::uint64_t>> blocks;
      for (const auto& [target, modules] : targets_)
        if (target.scheme == Scheme::fp8_block) blocks.insert({target.block_rows, target.block_cols});
      if (blocks.size() > 1)
        throw Error(checkpoint_.directory(),
                    "has FP8 modules in blocks of several sizes; config.json can name only one size");
      result_.to = schemes.contains(Scheme::mxfp4) ? "MXFP4 in DeepSeek-V4's layout" : "FP8 in blocks";
      if (recipe_.method == "fp8" && names_block_size(checkpoint_.config())) return;  // config.json says so
      const auto [rows, cols] =
          blocks.empty() ? std::pair<std::uint64_t, std::uint64_t>{128, 128} : *blocks.begin();
      OrderedJson config = {{"activation_scheme", "dynamic"}, {"fmt", "e4m3"}, {"quant_method", "fp8"}};
      OrderedJson more = OrderedJson::object();
      if (schemes.contains(Scheme::mxfp4)) {
        config["scale_fmt"] = "ue8m0";
        more["expert_dtype"] = "fp4";
      }
      config["weight_block_size"] = {rows, cols};
      config["modules_to_not_convert"] = plain_names();
      what.texts.emplace(kConfigName, with_quantization(context, checkpoint_, config, more));
      what.dropped.push_back(std::string(kModeloptConfig));
      return;
    }
    OrderedJson config, file;
    if (targets_.size() == 1) {
      const std::string algorithm = targets_.begin()->first.activations ? "NVFP4" : "W4A16_NVFP4";
      result_.to = "modelopt " + algorithm;
      config = modelopt_config(algorithm, summary());
      file = modelopt_file(algorithm, summary());
    } else {
      // The engine and the builders take the block size of FP8 experts from weight_block_size.
      const bool needs_block = std::any_of(
          modules_.quantized.begin(), modules_.quantized.end(),
          [](const QuantModule& module) { return module.expert && module.scheme == Scheme::fp8_block; });
      const bool lacks_block = needs_block && !names_block_size(checkpoint_.config());
      if (recipe_.method == "modelopt" && recipe_.format == "MIXED_PRECISION" && !lacks_block &&
          !schemes.contains(Scheme::mxfp4)) {
        result_.to = recipe_.title();
        return;
      }
      result_.to = "modelopt MIXED_PRECISION";
      for (const auto& [target, modules] : targets_)
        if (target.scheme == Scheme::fp8_block &&
            (target.block_rows != kFp8Block || target.block_cols != kFp8Block))
          throw Error(
              checkpoint_.directory(),
              fmt::format("'{}' is FP8 in blocks of {} x {} beside modules of other formats, for "
                          "which config.json can name only blocks of {} x {}",
                          modules.front()->name, target.block_rows, target.block_cols, kFp8Block, kFp8Block));
      std::tie(config, file) = mixed_config(layers(), summary());
      if (needs_block) config["weight_block_size"] = {kFp8Block, kFp8Block};
    }
    if (!recipe_.kv_cache.empty()) {
      config["kv_cache_scheme"] = {{"dynamic", false}, {"num_bits", 8}, {"type", "float"}};
      file["quantization"]["kv_cache_quant_algo"] = recipe_.kv_cache;
    }
    what.texts.emplace(kConfigName, with_quantization(context, checkpoint_, config));
    what.texts.emplace(kModeloptConfig, file.dump(4, ' ', true));
  }

  // Algorithm by module. The experts of a layer share one entry, as in modelopt's files, if all have the same
  // algorithm.
  std::map<std::string, std::string> layers() const {
    std::map<std::string, std::string> out, of_each;
    std::set<std::string> unlike;
    for (const auto& [target, modules] : targets_) {
      const std::string algorithm = target.scheme == Scheme::nvfp4
                                        ? (target.activations ? "NVFP4" : "W4A16_NVFP4")
                                    : target.scheme == Scheme::fp8_block ? "FP8_PB_WO"
                                                                         : "FP8";
      for (const QuantModule* module : modules) {
        const std::size_t experts = module->name.find(".experts.");
        const std::string name = module->name.substr(0, experts == std::string::npos ? experts : experts + 8);
        if (out.emplace(name, algorithm).first->second != algorithm) unlike.insert(name);
        of_each.emplace(module->name, algorithm);
      }
    }
    for (const std::string& name : unlike) out.erase(name);
    for (const auto& [name, algorithm] : of_each)
      if (const std::size_t experts = name.find(".experts.");
          experts != std::string::npos && unlike.contains(name.substr(0, experts + 8)))
        out.emplace(name, algorithm);
    return out;
  }

  const Checkpoint& checkpoint_;
  const TranslateOptions& options_;
  const QuantRecipe recipe_;
  const Modules modules_;
  const bool v4_;
  NewShards shards_;
  std::map<std::string, const QuantModule*> by_name_;
  std::map<Target, std::vector<const QuantModule*>> targets_;
  std::vector<const CastJob*> casts_;  // owned by shards_
  std::set<const Tensor*> taken_;
  bool changed_ = false;  // whether add() changed anything in the current module
  TranslateResult result_;
};

}  // namespace

TranslateResult translate(const Context& context, const TranslateOptions& options) {
  const Checkpoint checkpoint = Checkpoint::open(context, options.rewrite.source);
  if (const LayoutVerdict verdict = judge_layout(checkpoint); verdict.lead == Lead::none)
    throw Error(checkpoint.directory(), verdict.sentence);
  TranslateResult result = Translation(context.os, checkpoint, options).run(context);
  if (options.gate && !options.rewrite.dry_run)
    result.gate = compare_translated(context, options.rewrite.source, options.rewrite.target);
  return result;
}

}  // namespace planesmith
