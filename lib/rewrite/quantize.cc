#include "rewrite/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "checkpoint/tensor_name.h"
#include "format/slice.h"
#include "manifest/profile.h"
#include "rewrite/recipe_text.h"

namespace planesmith {
namespace {

// One matrix, or gate and up, which share weight_scale_2.
class QuantizeJob : public Job {
 public:
  QuantizeJob(const Checkpoint& checkpoint, Fp4 to, std::vector<const FloatMatrix*> matrices)
      : Job(tensors_of(to, matrices)), checkpoint_(checkpoint), to_(to), matrices_(std::move(matrices)) {
    for (const FloatMatrix* matrix : matrices_)
      places_.push_back(place_of(checkpoint, *matrix->tensor, matrix->offset));
  }

  void run(std::size_t, JobIo& io) const override {
    std::vector<FloatStream::Matrix> shapes;
    for (const FloatMatrix* matrix : matrices_) shapes.push_back({matrix->type, matrix->rows * matrix->cols});
    const FloatStream stream{shapes,
                             [&](std::size_t m, std::uint64_t first, Bytes to) {
                               io.read(places_[m], first * bytes_of(matrices_[m]->type), to);
                             },
                             [&](std::size_t m, std::uint64_t first, ConstBytes nibbles, ConstBytes scales) {
                               io.put(m * tensors_each(), first / 2, nibbles);
                               io.put(m * tensors_each() + 1, first / group_of(to_), scales);
                             }};
    const float amax = io.quantizer().quantize(to_, stream, io.room());
    if (!std::isfinite(amax)) refuse(io);
    for (std::size_t m = 0; to_ == Fp4::nvfp4 && m < matrices_.size(); ++m) {
      io.put_f32(m * tensors_each() + 2, nvfp4_scale_2(amax));
      io.put_f32(m * tensors_each() + 3, 1);
    }
  }

 private:
  std::size_t tensors_each() const { return to_ == Fp4::nvfp4 ? 4 : 2; }

  static std::vector<NewTensor> tensors_of(Fp4 to, const std::vector<const FloatMatrix*>& matrices) {
    std::vector<NewTensor> out;
    for (const FloatMatrix* m : matrices) {
      if (to == Fp4::nvfp4) {
        out.push_back({m->module + ".weight", Dtype::u8, {m->rows, m->cols / 2}});
        out.push_back({m->module + ".weight_scale", Dtype::f8_e4m3, {m->rows, m->cols / kNvfp4Group}});
        out.push_back({m->module + ".weight_scale_2", Dtype::f32, {}});
        out.push_back({m->module + ".input_scale", Dtype::f32, {}});
      } else {
        out.push_back({m->module + ".weight", Dtype::i8, {m->rows, m->cols / 2}});
        out.push_back({m->module + ".scale", Dtype::f8_e8m0, {m->rows, m->cols / kMxfp4Group}});
      }
    }
    return out;
  }

  // Looks for the weight that is not finite.
  [[noreturn]] void refuse(JobIo& io) const {
    for (std::size_t m = 0; m < matrices_.size(); ++m) {
      const FloatMatrix& matrix = *matrices_[m];
      const std::uint64_t width = bytes_of(matrix.type), count = matrix.rows * matrix.cols;
      const std::uint64_t step = JobIo::kPieceBytes / width;
      for (std::uint64_t first = 0; first < count; first += step) {
        const std::uint64_t n = std::min(step, count - first);
        const Bytes piece = io.piece().first(n * width);
        io.read(places_[m], first * width, piece);
        refuse_nonfinite(checkpoint_, matrix, {piece.data(), matrix.type, n}, first);
      }
    }
    throw Error(
        checkpoint_.directory(),
        fmt::format(
            "'{}' had a NaN or an infinity, which is not there any more; is the file being written, or "
            "the device's memory faulty?",
            matrices_.front()->module));
  }

  const Checkpoint& checkpoint_;
  Fp4 to_;
  std::vector<const FloatMatrix*> matrices_;
  std::vector<Place> places_;
};

void refuse_groups(const Checkpoint& checkpoint, Fp4 to, const format::Geometry& geometry) {
  const std::uint64_t group = group_of(to);
  for (const auto& [key, value] :
       {std::pair{"hidden_size", geometry.hidden}, {"moe_intermediate_size", geometry.intermediate}})
    if (value % group != 0)
      throw Error(join(checkpoint.directory(), kConfigName),
                  fmt::format("{} is {}, which does not divide into groups of {}", key, value, group));
}

// "model.layers.61.mlp.experts" of "model.layers.61.mlp.experts.0.w1".
std::string stem_of_experts(const std::string& module) {
  const std::size_t at = module.find(".experts.");
  return module.substr(0, at == std::string::npos ? at : at + 8);
}

struct Modules {
  std::set<std::string> quantized, unquantized;
};
Modules modules_of(const Checkpoint& checkpoint, Fp4 to, const FloatExperts& experts) {
  Modules modules;
  for (const auto& layer : experts.layers)
    for (const auto& expert : layer.experts)
      for (const FloatMatrix& matrix : expert) modules.quantized.insert(matrix.module);
  const std::set<const Tensor*> taken(experts.tensors.begin(), experts.tensors.end());
  constexpr std::string_view kWeight = ".weight";
  for (const Tensor& tensor : checkpoint.tensors()) {
    if (taken.contains(&tensor) || tensor.shape.size() < 2) continue;
    if (tensor.name.ends_with(kWeight) && !float_type(tensor.dtype)) {
      // DeepSeek-V4's layout has FP8 blocks beside MXFP4 experts; beside NVFP4 experts only floats are
      // allowed.
      if (to == Fp4::mxfp4 && tensor.dtype == Dtype::f8_e4m3) continue;
      throw Error(checkpoint.shard_path(tensor),
                  fmt::format("has dtype {}, so it is quantized already, although the routed experts are "
                              "not; quantize needs a checkpoint of floats",
                              dtype_text(tensor)))
          .in_tensor(tensor.name)
          .at(tensor.described_at);
    }
    if (tensor.name.ends_with(kWeight))
      modules.unquantized.insert(tensor.name.substr(0, tensor.name.size() - kWeight.size()));
    else if (tensor.name.find(".experts.") != std::string::npos)  // a drafter's fused experts
      modules.unquantized.insert(tensor.name.substr(0, tensor.name.rfind('.')));
  }
  // A head tied to the embedding is a module without a tensor.
  if (config_value(checkpoint.config(), "tie_word_embeddings") == true) modules.unquantized.insert("lm_head");
  return modules;
}

// The layout of a model whose MXFP4 experts the engine serves; everything else stays as it is. This method's
// list has no globs: it names each module, and the experts of a drafter's layer by one entry.
OrderedJson mxfp4_config(const std::vector<std::string>& excluded) {
  return {{"quant_method", "fp8"},
          {"fmt", "e4m3"},
          {"scale_fmt", "ue8m0"},
          {"weight_block_size", {kFp8Block, kFp8Block}},
          {"modules_to_not_convert", excluded}};
}

}  // namespace

Fp4 parse_fp4(std::string_view text) {
  if (text == "nvfp4") return Fp4::nvfp4;
  if (text == "mxfp4") return Fp4::mxfp4;
  throw Error(ErrorCode::usage, "", fmt::format("--to: '{}' is not one of nvfp4, mxfp4", printable(text)));
}

QuantizeResult quantize(const Context& context, Fp4 to, const RewriteOptions& options) {
  const Checkpoint checkpoint = Checkpoint::open(context, options.source);
  const FloatExperts experts = find_float_experts(checkpoint);
  say_profile(context, experts.geometry);
  refuse_groups(checkpoint, to, experts.geometry);

  QuantizeResult result;
  result.layers = experts.layers.size();
  result.experts = experts.geometry.experts;
  result.weights = result.layers * result.experts * kProjections;
  result.fused = experts.fused;
  NewShards shards(checkpoint);
  for (const Tensor* tensor : experts.tensors) shards.replace(*tensor);
  for (const FloatExperts::Layer& layer : experts.layers)
    for (const auto& expert : layer.experts) {
      const FloatMatrix &gate = expert[0], &up = expert[1], &down = expert[2];
      shards.add(*gate.tensor, std::make_unique<QuantizeJob>(checkpoint, to, std::vector{&gate, &up}));
      shards.add(*down.tensor, std::make_unique<QuantizeJob>(checkpoint, to, std::vector{&down}));
    }
  for (const Tensor& tensor : checkpoint.tensors())
    result.drafters +=
        parse_tensor_name(tensor.name, experts.geometry.layers, tensor.shape.size()).left_as == "MTP";

  const Modules modules = modules_of(checkpoint, to, experts);
  if (to == Fp4::nvfp4) {
    result.excluded = excluded_modules(modules.quantized, modules.unquantized);
  } else {
    std::set<std::string> names;
    for (const std::string& module : modules.unquantized) names.insert(stem_of_experts(module));
    result.excluded.assign(names.begin(), names.end());
  }
  Rewrite what;
  what.build = {{"command", "quantize"}, {"to", to == Fp4::nvfp4 ? "nvfp4" : "mxfp4"}};
  if (to == Fp4::nvfp4) {
    what.texts.emplace(kConfigName,
                       with_quantization(context, checkpoint, modelopt_config("NVFP4", result.excluded)));
    what.texts.emplace(kModeloptConfig, modelopt_file("NVFP4", result.excluded).dump(4, ' ', true));
  } else {
    what.texts.emplace(kConfigName, with_quantization(context, checkpoint, mxfp4_config(result.excluded),
                                                      {{"expert_dtype", "fp4"}}));
  }
  result.files = rewrite(context, checkpoint, shards, what, options);
  return result;
}

}  // namespace planesmith
