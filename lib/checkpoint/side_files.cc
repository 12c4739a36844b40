#include "checkpoint/side_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"

namespace planesmith {
namespace {

constexpr std::string_view kTokenizer = "tokenizer.json", kTokenizerConfig = "tokenizer_config.json";

// Whether tokenizer.json and tokenizer_config.json hold the file's content too.
bool is_held_by_tokenizer(std::string_view name) {
  constexpr std::string_view kHeld[] = {"added_tokens.json", "merges.txt", "special_tokens_map.json",
                                        "vocab.json", "vocab.txt"};
  return std::find(std::begin(kHeld), std::end(kHeld), name) != std::end(kHeld);
}
bool is_chat_template(std::string_view name) {
  return name == "chat_template.jinja" || name == "chat_template.json";
}

Json read_if_there(Os& os, const std::string& directory, std::string_view name, std::uint64_t max_bytes,
                   std::uint64_t max_memory) {
  const std::string path = join(directory, name);
  if (!exists(os, path)) return nullptr;
  try {
    return read_json(os, path, max_bytes, max_memory);
  } catch (const Error&) {
    return nullptr;  // the code that needs the file reports it
  }
}

bool has_template(Os& os, const std::string& directory) {
  if (exists(os, join(directory, "chat_template.jinja")) || exists(os, join(directory, "chat_template.json")))
    return true;
  const Json config = read_if_there(os, directory, kTokenizerConfig, kMostJsonBytes, kMostJsonMemory);
  return config.is_object() && config.contains("chat_template") && !config["chat_template"].is_null();
}

using Vocabulary = std::map<std::string, std::uint64_t>;

void add_tokens(const Json& vocabulary, Vocabulary& to) {
  if (vocabulary.is_object())
    for (const auto& [token, id] : vocabulary.items())
      if (id.is_number_unsigned()) to[token] = id.get<std::uint64_t>();
  if (vocabulary.is_array())  // unigram models: [token, score]; the position is the id
    for (std::size_t i = 0; i < vocabulary.size(); ++i)
      if (vocabulary[i].is_array() && !vocabulary[i].empty() && vocabulary[i][0].is_string())
        to[vocabulary[i][0].get<std::string>()] = i;
}

// A tokenizer.json of 20 MiB takes ten times as much memory while it is read, and the tokens remain.
Vocabulary read_vocabulary(Os& os, const std::string& directory, std::uint64_t memory) {
  const auto read = [&](std::string_view name) {
    return read_if_there(os, directory, name, memory / 8, memory / 4);
  };
  Vocabulary out;
  const Json tokenizer = read(kTokenizer);
  if (!tokenizer.is_object()) {
    add_tokens(read("vocab.json"), out);
    add_tokens(read("added_tokens.json"), out);
    return out;
  }
  if (tokenizer.contains("model") && tokenizer["model"].is_object() && tokenizer["model"].contains("vocab"))
    add_tokens(tokenizer["model"]["vocab"], out);
  if (tokenizer.contains("added_tokens") && tokenizer["added_tokens"].is_array())
    for (const Json& token : tokenizer["added_tokens"])
      if (token.is_object() && token.contains("content") && token["content"].is_string() &&
          token.contains("id") && token["id"].is_number_unsigned())
        out[token["content"].get<std::string>()] = token["id"].get<std::uint64_t>();
  return out;
}

}  // namespace

bool is_tokenizer_file(std::string_view name) {
  return is_held_by_tokenizer(name) || is_chat_template(name) || name == "generation_config.json" ||
         name == "tiktoken.model" || name == "spiece.model" || name.starts_with("tokenizer") ||
         name.starts_with("tokenization_");
}

bool is_processor_file(std::string_view name) {
  return name == "preprocessor_config.json" || name == "processor_config.json" ||
         name == "video_preprocessor_config.json";
}

std::vector<std::string> lost_side_files(Os& os, const std::string& directory, const std::string& source) {
  const bool tokenizer = exists(os, join(directory, kTokenizer)), formatted = has_template(os, directory);
  std::vector<std::string> lost;
  for (const std::string& name : list_dir(os, source)) {
    if (!is_tokenizer_file(name) && !is_processor_file(name)) continue;
    if (exists(os, join(directory, name)) || (tokenizer && is_held_by_tokenizer(name)) ||
        (formatted && is_chat_template(name)))
      continue;
    lost.push_back(name);
  }
  return lost;
}

std::string vocabulary_change(Os& os, const std::string& directory, const std::string& source,
                              std::uint64_t memory) {
  const Vocabulary here = read_vocabulary(os, directory, memory), there = read_vocabulary(os, source, memory);
  if (here.empty() || there.empty()) return "";
  std::uint64_t lost = 0, moved = 0;
  std::string first;
  for (const auto& [token, id] : there) {
    const auto at = here.find(token);
    if (at != here.end() && at->second == id) continue;
    ++(at == here.end() ? lost : moved);
    if (first.empty()) first = token;
  }
  std::uint64_t added = 0;
  for (const auto& [token, id] : here)
    if (!there.contains(token)) {
      ++added;
      if (first.empty()) first = token;
    }
  if (lost + moved + added == 0) return "";
  return fmt::format("{} tokens are lost, {} have other ids, {} are new, such as '{}'", lost, moved, added,
                     first);
}

}  // namespace planesmith
