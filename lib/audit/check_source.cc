// Compares a checkpoint with its source: what conversion must leave alone.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <mutex>
#include <optional>
#include <set>

#include "audit/checks.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "checkpoint/tensor_name.h"
#include "quant/quantize.h"
#include "rewrite/float_experts.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kBlock = 8 << 20;

struct ExpertPart {
  bool is = false;           // a routed expert's tensor
  std::optional<Role> role;  // none: the experts of a layer are fused, or the name has another spelling
};
ExpertPart expert_of(const Inventory& inventory, const Tensor& tensor) {
  const TensorName name = parse_tensor_name(tensor.name, inventory.layers(), tensor.shape.size());
  if (name.kind == TensorName::Kind::expert) return {true, name.role};
  return {name.kind != TensorName::Kind::other && name.main_layer, std::nullopt};
}

bool same_form(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.size == b.size;
}

std::string module_of(const std::string& name) {
  return name.substr(0, name.rfind('.'));
}

// A name without the prefixes that loaders put before the language model.
std::string bare(std::string_view name) {
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view wrapper : {"model.", "language_model."})
      if (name.starts_with(wrapper)) {
        name.remove_prefix(wrapper.size());
        more = true;
      }
  }
  return std::string(name);
}

// Tensors that a quantizer adds for weights or for the KV cache: scales, packed weights and the like.
bool is_side_tensor(std::string_view name) {
  const std::string_view word = name.substr(name.rfind('.') + 1);
  constexpr std::string_view kWords[] = {"weight_scale",
                                         "weight_scale_2",
                                         "weight_scale_inv",
                                         "scale",
                                         "weight_global_scale",
                                         "input_scale",
                                         "input_global_scale",
                                         "weight_packed",
                                         "weight_shape",
                                         "weight_zero_point",
                                         "k_scale",
                                         "v_scale",
                                         "q_scale",
                                         "kv_scale",
                                         "output_scale",
                                         "prob_output_scale"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords) ||
         word.ends_with("_scale_inv");
}

// The modules that are quantized in this checkpoint, by bare name: their weights are packed, or have a scale.
std::set<std::string> quantized_modules(const Inventory& inventory) {
  std::set<std::string> out;
  for (const auto& [name, tensor] : inventory.tensors)
    if (is_side_tensor(name)) out.insert(bare(module_of(name)));
  return out;
}

Xxh3 digest(const Context& context, const std::string& path, const Tensor& tensor,
            std::vector<std::uint8_t>& buffer) {
  const File file = File::open_read(context.os, path);
  std::vector<Xxh3> blocks;
  for (std::uint64_t at = 0; at < tensor.size; at += kBlock) {
    context.check_stop();
    buffer.resize(std::min(kBlock, tensor.size - at));
    file.read(buffer, tensor.offset + at);
    blocks.push_back(Xxh3::of(buffer));
    context.progress.advance(buffer.size());
  }
  return combine(blocks);
}

// Whether both hold the same numbers, in two float types.
bool same_values(const Context& context, const std::string& path, const Tensor& tensor,
                 const std::string& other_path, const Tensor& other) {
  const auto a = float_type(tensor.dtype), b = float_type(other.dtype);
  if (!a || !b || tensor.shape != other.shape) return false;
  const File file = File::open_read(context.os, path), other_file = File::open_read(context.os, other_path);
  const std::uint64_t count = tensor.size / bytes_of(*a), step = kBlock / 4;
  std::vector<std::uint8_t> left, right;
  for (std::uint64_t at = 0; at < count; at += step) {
    context.check_stop();
    const std::uint64_t n = std::min(step, count - at);
    left.resize(n * bytes_of(*a));
    right.resize(n * bytes_of(*b));
    file.read(left, tensor.offset + at * bytes_of(*a));
    other_file.read(right, other.offset + at * bytes_of(*b));
    for (std::uint64_t i = 0; i < n; ++i)
      if (std::bit_cast<std::uint32_t>(value_at({left.data(), *a, n}, i)) !=
          std::bit_cast<std::uint32_t>(value_at({right.data(), *b, n}, i)))
        return false;
  }
  return true;
}

class Comparison {
 public:
  Comparison(const Context& context, const Inventory& here, const Inventory& source, Findings& findings)
      : context_(context),
        here_(here),
        source_(source),
        findings_(findings),
        quantized_(quantized_modules(here)) {
    for (const auto& [name, tensor] : here.tensors) by_bare_.emplace(bare(name), &tensor);
    for (const auto& [name, tensor] : source.tensors) in_source_.insert(bare(name));
  }

  std::uint64_t run() {
    for (const auto& [name, tensor] : source_.tensors) sort_out(name, tensor);
    for (const auto& [name, tensor] : here_.tensors)
      if (source_.find(name) == nullptr && !in_source_.contains(bare(name)) && !expert_of(here_, tensor).is &&
          !is_side_tensor(name) && !is_packed_in_source(name))
        added_.add(name);
    report_presence();
    compare();
    return same_;
  }

 private:
  struct Pair {
    const Tensor *here, *there;
  };

  const Tensor* counterpart(const std::string& name) const {
    if (const Tensor* tensor = here_.find(name)) return tensor;
    const auto at = by_bare_.find(bare(name));
    return at == by_bare_.end() ? nullptr : at->second;
  }
  // Whether it is a weight that the source has as weight_packed.
  bool is_packed_in_source(const std::string& name) const {
    return name.ends_with(".weight") && in_source_.contains(bare(name) + "_packed");
  }
  // Whether the tensor's module is quantized in this checkpoint, under any prefix.
  bool is_quantized(const std::string& name) const { return quantized_.contains(bare(module_of(name))); }

  void sort_out(const std::string& name, const Tensor& tensor) {
    const Tensor* here = counterpart(name);
    const ExpertPart expert = expert_of(source_, tensor);
    // Conversion changes weights and scales of experts, repacking only weights; both may split fused experts.
    if (expert.is &&
        (!expert.role || *expert.role == Role::weight || here == nullptr || !same_form(*here, tensor)))
      return;
    if ((here == nullptr || !same_form(*here, tensor)) && is_quantized(name)) {
      if (!is_side_tensor(name)) quantized_by_recipe_.add(name);  // else a scale in another layout
      return;
    }
    if (here != nullptr) {
      if (here->name != name) renamed_.add(name);
      both_.push_back({here, &tensor});
      total_ += here->size + tensor.size;
    } else {
      (parse_tensor_name(name, source_.layers(), tensor.shape.size()).left_as == "MTP" ? gone_mtp_ : gone_)
          .add(name);
    }
  }

  void report_presence() {
    if (gone_mtp_)
      findings_.push_back(
          {"against.mtp-lost", Severity::error,
           fmt::format("{} drafter (MTP) tensors of the source are gone, the first is '{}'", gone_mtp_.count,
                       gone_mtp_.first),
           "speculative decoding is lost",
           "copy them from the source and list them in the index, or let repack-experts finish do it"});
    if (gone_)
      findings_.push_back(
          {"against.lost", Severity::error,
           fmt::format("{} tensors of the source are gone, the first is '{}'", gone_.count, gone_.first),
           "the model is incomplete", "copy them from the source"});
    if (added_)
      findings_.push_back(
          {"against.added", Severity::warning,
           fmt::format("{} tensors are not in the source, the first is '{}'", added_.count, added_.first),
           "the source cannot vouch for them", "make sure that they belong here"});
    if (quantized_by_recipe_)
      findings_.push_back({"against.quantized", Severity::note,
                           fmt::format("{} weights besides the routed experts are quantized here and not in "
                                       "the source, the first is '{}'",
                                       quantized_by_recipe_.count, quantized_by_recipe_.first),
                           "the recipe covers them", "nothing"});
    if (renamed_)
      findings_.push_back({"against.renamed", Severity::note,
                           fmt::format("{} tensors have another prefix than in the source, the first is '{}'",
                                       renamed_.count, renamed_.first),
                           "loaders map such prefixes", "nothing"});
  }

  void compare() {
    std::mutex mutex;
    std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(context_.threads));
    context_.progress.begin("compare", total_);
    parallel_for(both_.size(), context_.threads, [&](std::size_t i, int worker) {
      const Tensor &here = *both_[i].here, &there = *both_[i].there;
      std::vector<std::uint8_t>& buffer = buffers[static_cast<std::size_t>(worker)];
      const std::string here_path = here_.shard_path(here), there_path = source_.shard_path(there);
      const bool equal = same_form(here, there) && digest(context_, here_path, here, buffer) ==
                                                       digest(context_, there_path, there, buffer);
      const bool equal_values = !equal && same_values(context_, here_path, here, there_path, there);
      const std::lock_guard<std::mutex> lock(mutex);
      same_ += equal || equal_values;
      if (equal_values) retyped_.add(here.name);
      if (!equal && !equal_values) (expert_of(source_, there).is ? scales_ : changed_).add(here.name);
    });
    context_.progress.end();
    if (retyped_)
      findings_.push_back({"against.dtype", Severity::note,
                           fmt::format("{} tensors have another dtype and the same values, the first is '{}'",
                                       retyped_.count, retyped_.first),
                           "nothing is lost", "nothing"});
    if (changed_)
      findings_.push_back(
          {"against.changed", Severity::error,
           fmt::format("{} tensors outside the routed experts differ from the source, the first is '{}'",
                       changed_.count, changed_.first),
           "repacking experts must leave the rest alone", "copy these tensors from the source"});
    if (scales_)
      findings_.push_back(
          {"against.scales", Severity::error,
           fmt::format("{} scales of routed experts differ from the source, the first is '{}'", scales_.count,
                       scales_.first),
           "repacking changes weights and never their scales: these experts have other values",
           "copy the scales from the source, or quantize the weights with them"});
  }

  const Context& context_;
  const Inventory &here_, &source_;
  Findings& findings_;
  const std::set<std::string> quantized_;
  std::map<std::string, const Tensor*> by_bare_;
  std::set<std::string> in_source_;
  std::vector<Pair> both_;
  std::uint64_t total_ = 0, same_ = 0;
  Several gone_, gone_mtp_, added_, quantized_by_recipe_, renamed_, changed_, scales_, retyped_;
};

}  // namespace

std::uint64_t check_against(const Context& context, const Inventory& inventory, const Inventory& source,
                            Findings& findings) {
  return Comparison(context, inventory, source, findings).run();
}

}  // namespace planesmith
