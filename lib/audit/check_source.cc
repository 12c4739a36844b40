// The files beside the weights, and what has to be the same as in the checkpoint that this one was made from.
#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <optional>

#include "audit/checks.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "checkpoint/tensor_name.h"

namespace planesmith {
namespace {

constexpr std::string_view kProcessor = "preprocessor_config.json", kNewProcessor = "processor_config.json";

// Files that turn prompts into tokens and back.
bool is_of_tokenizer(std::string_view file) {
  constexpr std::string_view kOthers[] = {"added_tokens.json",  "chat_template.jinja",
                                          "chat_template.json", "generation_config.json",
                                          "merges.txt",         "special_tokens_map.json",
                                          "tiktoken.model",     "vocab.json",
                                          "vocab.txt",          "spiece.model"};
  return file.starts_with("tokenizer") || file.starts_with("tokenization_") ||
         std::find(std::begin(kOthers), std::end(kOthers), file) != std::end(kOthers);
}

// What the tensor is to a routed expert; none: it is not an expert's.
std::optional<Role> role_of(const Inventory& inventory, const Tensor& tensor) {
  const TensorName name = parse_tensor_name(tensor.name, inventory.layers(), tensor.shape.size());
  if (name.kind != TensorName::Kind::expert) return {};
  return name.role;
}

bool same_form(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.size == b.size;
}

// Conversion gives experts other weights and scales, repacking only other weights.
bool converted(const Inventory& source, const Tensor& tensor, const Tensor* here) {
  const std::optional<Role> role = role_of(source, tensor);
  return role && (*role == Role::weight || here == nullptr || !same_form(*here, tensor));
}

Xxh3 digest(const Context& context, const std::string& path, const Tensor& tensor,
            std::vector<std::uint8_t>& buffer) {
  constexpr std::uint64_t kBlock = 8 << 20;
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

}  // namespace

void check_files(const Context& context, const Inventory& inventory, const std::string& source,
                 Findings& findings) {
  const auto here = [&](std::string_view file) {
    return exists(context.os, inventory.path(std::string(file)));
  };
  if (!source.empty())
    for (const std::string& file : list_dir(context.os, source)) {
      if (here(file)) continue;
      if (is_of_tokenizer(file))
        findings.push_back({"tokenizer.missing", Severity::error,
                            fmt::format("{} is in the source and not here", file),
                            "prompts are tokenized or formatted differently", "copy it from the source"});
      if (file == kProcessor || file == kNewProcessor)
        findings.push_back(
            {"vision.processor", Severity::error, fmt::format("{} is in the source and not here", file),
             "images are prepared differently, or cannot be served", "copy it from the source"});
    }
  if (here("tokenizer.json")) {
    try {
      const Json tokenizer =
          read_json(context.os, inventory.path("tokenizer.json"), context.memory / 5, context.memory / 5 * 2);
      for (const char* key : {"truncation", "padding"})
        if (tokenizer.is_object() && tokenizer.contains(key) && !tokenizer[key].is_null())
          findings.push_back(
              {fmt::format("tokenizer.{}", key), Severity::error,
               fmt::format("tokenizer.json has {} baked in: {}", key, tokenizer[key].dump().substr(0, 120)),
               "every prompt is cut or padded to that length, without a message",
               fmt::format("set \"{}\" to null in tokenizer.json", key)});
    } catch (const Error& error) {
      findings.push_back({"tokenizer.unreadable", Severity::error, error.what(), "the server will not start",
                          "copy it from the model's repository"});
    }
  }
  const bool vision = std::any_of(inventory.tensors.begin(), inventory.tensors.end(), [](const auto& entry) {
    return entry.first.find("vision") != std::string::npos ||
           entry.first.find("visual.") != std::string::npos;
  });
  if (vision && !here(kProcessor))
    findings.push_back({"vision.processor", here(kNewProcessor) ? Severity::warning : Severity::error,
                        fmt::format("there is a vision tower, but no {}{}", kProcessor,
                                    here(kNewProcessor) ? "" : fmt::format(", nor {}", kNewProcessor)),
                        here(kNewProcessor) ? "older loaders cannot serve images" : "images cannot be served",
                        "copy it from the model's repository"});
}

std::uint64_t check_against(const Context& context, const Inventory& inventory, const Inventory& source,
                            Findings& findings) {
  std::vector<std::pair<const Tensor*, const Tensor*>> both;
  std::uint64_t total = 0;
  Several gone, gone_mtp, added;
  for (const auto& [name, tensor] : source.tensors) {
    const Tensor* here = inventory.find(name);
    if (converted(source, tensor, here)) continue;
    if (here != nullptr) {
      both.emplace_back(here, &tensor);
      total += here->size + tensor.size;
    } else if (parse_tensor_name(name, source.layers(), tensor.shape.size()).left_as == "MTP") {
      gone_mtp.add(name);
    } else {
      gone.add(name);
    }
  }
  for (const auto& [name, tensor] : inventory.tensors)
    if (source.find(name) == nullptr && !role_of(inventory, tensor)) added.add(name);
  if (gone_mtp)
    findings.push_back({"against.mtp-lost", Severity::error,
                        fmt::format("{} drafter (MTP) tensors of the source are gone, the first is '{}'",
                                    gone_mtp.count, gone_mtp.first),
                        "speculative decoding is lost",
                        "copy them from the source and list them in the index"});
  if (gone)
    findings.push_back(
        {"against.lost", Severity::error,
         fmt::format("{} tensors of the source are gone, the first is '{}'", gone.count, gone.first),
         "the model is not whole", "copy them from the source"});
  if (added)
    findings.push_back(
        {"against.added", Severity::warning,
         fmt::format("{} tensors are not in the source, the first is '{}'", added.count, added.first),
         "somebody added them", "make sure that they belong here"});

  std::uint64_t same = 0;
  Several changed, scales;
  std::mutex mutex;
  std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(context.threads));
  context.progress.begin("compare", total);
  parallel_for(both.size(), context.threads, [&](std::size_t i, int worker) {
    const auto& [here, there] = both[i];
    std::vector<std::uint8_t>& buffer = buffers[static_cast<std::size_t>(worker)];
    const bool equal =
        same_form(*here, *there) && digest(context, inventory.shard_path(*here), *here, buffer) ==
                                        digest(context, source.shard_path(*there), *there, buffer);
    const std::lock_guard<std::mutex> lock(mutex);
    if (equal)
      ++same;
    else
      (role_of(source, *there) ? scales : changed).add(here->name);
  });
  context.progress.end();
  if (changed)
    findings.push_back(
        {"against.changed", Severity::error,
         fmt::format("{} tensors outside the routed experts differ from the source, the first is '{}'",
                     changed.count, changed.first),
         "repacking experts must leave the rest alone", "copy these tensors from the source"});
  if (scales)
    findings.push_back({"against.scales", Severity::error,
                        fmt::format("{} scales of routed experts differ from the source, the first is '{}'",
                                    scales.count, scales.first),
                        "repacking changes weights and never their scales: these experts have other values",
                        "copy the scales from the source, or quantize the weights with them"});
  return same;
}

}  // namespace planesmith
