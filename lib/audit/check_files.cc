// Tokenizer and processor files, also compared with those of the source checkpoint.
#include <fmt/format.h>

#include <algorithm>

#include "audit/checks.h"
#include "base/error.h"
#include "base/file.h"
#include "checkpoint/side_files.h"

namespace planesmith {
namespace {

constexpr std::string_view kProcessor = "preprocessor_config.json", kNewProcessor = "processor_config.json";

}  // namespace

void check_files(const Context& context, const Inventory& inventory, const std::string& source,
                 Findings& findings) {
  const auto here = [&](std::string_view file) {
    return exists(context.os, inventory.path(std::string(file)));
  };
  if (!source.empty()) {
    for (const std::string& file : lost_side_files(context.os, inventory.directory, source)) {
      const bool tokenizer = is_tokenizer_file(file);
      findings.push_back({tokenizer ? "tokenizer.missing" : "vision.processor", Severity::error,
                          fmt::format("{} is in the source and not here", file),
                          tokenizer ? "prompts are tokenized or formatted differently"
                                    : "images are prepared differently, or cannot be served",
                          "copy it from the source, or let repack-experts finish do it"});
    }
    if (const std::string change = vocabulary_change(context.os, inventory.directory, source, context.memory);
        !change.empty())
      findings.push_back(
          {"tokenizer.vocabulary", Severity::error, "the vocabulary is not the source's: " + change,
           "the model reads other tokens than it was trained on", "copy tokenizer.json from the source"});
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

}  // namespace planesmith
