// A small checkpoint that audit finds nothing wrong with, to be broken in one place.
#pragma once

#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "audit/audit.h"
#include "expert_checkpoints.h"
#include "safetensors_files.h"
#include "scratch.h"

// 3 layers of which the first is dense, 2 experts, H = 192, I = 128; one shard with an index.
class AuditBench {
 public:
  explicit AuditBench(const Style& style) : checkpoint(variant(style)), style_(style) {
    if (style.family == planesmith::Family::mxfp4)  // a drafter beside them
      checkpoint.add("mtp.0.attn.wq.weight", "BF16", {64, 192});
    checkpoint.config["num_nextn_predict_layers"] = style.family == planesmith::Family::mxfp4 ? 1 : 0;
    files["tokenizer.json"] = "{}";
  }

  Variant checkpoint;
  std::map<std::string, std::string> contents;  // of tensors: instead of sound ones
  std::map<std::string, std::string> files;     // beside the shard
  std::optional<std::string> index{};           // its text, instead of what fits the shard
  planesmith::AuditRequest request{};

  // The weight or scale of one projection of layer 1.
  std::string expert(int number, std::string_view projection, std::string_view suffix) const {
    return fmt::format("{}layers.1.{}.experts.{}.{}.{}", style_.prefix, style_.short_names ? "ffn" : "mlp",
                       number, projection, suffix);
  }
  // What a sound one holds: noise, scales of one size.
  std::string sound(const TensorSpec& tensor) const {
    std::string bytes(tensor.bytes(), '\0');
    const std::string word = tensor.name.substr(tensor.name.rfind('.') + 1);
    if (tensor.dtype == "F32") {
      for (std::size_t at = 0; at + 4 <= bytes.size(); at += 4) put_float(bytes, at / 4, .01f);
    } else if (word != "weight") {
      bytes.assign(bytes.size(), tensor.dtype == "F8_E4M3" ? '\x38' : '\x78');
    } else {
      std::uint64_t state = std::hash<std::string>()(tensor.name) | 1;
      for (char& byte : bytes) byte = static_cast<char>((state = state * 6364136223846793005u + 1) >> 56);
    }
    return bytes;
  }
  // The same, to be changed.
  std::string& of(const std::string& name) {
    return contents.try_emplace(name, sound(checkpoint[name])).first->second;
  }
  static void put_float(std::string& bytes, std::size_t at, float value) {
    std::memcpy(bytes.data() + 4 * at, &value, sizeof value);
  }

  planesmith::Json index_of_shard() const {
    planesmith::Json map = planesmith::Json::object();
    std::uint64_t total = 0;
    for (const TensorSpec& tensor : checkpoint.tensors) {
      map[tensor.name] = "model.safetensors";
      total += tensor.bytes();
    }
    return {{"metadata", {{"total_size", total}}}, {"weight_map", map}};
  }

  void write(const std::string& directory) const {
    std::filesystem::create_directories(directory);
    put_file(directory + "/config.json", checkpoint.config.dump());
    put_file(directory + "/model.safetensors.index.json", index.value_or(index_of_shard().dump()));
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    std::string data;
    for (const TensorSpec& tensor : checkpoint.tensors) {
      const auto own = contents.find(tensor.name);
      const std::uint64_t begin = data.size();
      data += own == contents.end() ? sound(tensor) : own->second;
      header[tensor.name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    put_file(directory + "/model.safetensors", safetensors(header.dump(), data));
    for (const auto& [name, text] : files) put_file(directory + "/" + name, text);
  }

  // Codes of all that is found in what is there by now; notes apart.
  std::set<std::string> codes_in(const std::string& directory) {
    request.checkpoint = directory;
    std::set<std::string> out;
    for (const planesmith::Finding& finding : planesmith::audit(planesmith::Context{}, request).findings)
      if (finding.severity != planesmith::Severity::note || with_notes) out.insert(finding.code);
    return out;
  }
  std::set<std::string> codes() {
    const Scratch scratch;
    write(scratch / "checkpoint");
    return codes_in(scratch / "checkpoint");
  }
  bool with_notes = false;

 private:
  Style style_;
};
