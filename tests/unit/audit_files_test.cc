// What audit finds about index, shards, the files beside them, caches, and in comparison with the source
// checkpoint: each fault alone.
#include <doctest/doctest.h>
#include <errno.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <regex>

#include "audit_bench.h"

using namespace planesmith;

namespace {

using Codes = std::set<std::string>;

// The codes where `break_it` has changed files of a sound checkpoint's directory.
template <typename Break>
Codes codes_after(Break break_it, AuditBench bench = AuditBench(kMxfp4)) {
  const Scratch scratch;
  bench.write(scratch / "checkpoint");
  break_it(scratch / "checkpoint");
  return bench.codes_in(scratch / "checkpoint");
}

Codes codes_with_index(const std::function<void(Json& index, AuditBench& bench)>& change) {
  AuditBench bench(kMxfp4);
  Json index = bench.index_of_shard();
  change(index, bench);
  bench.index = index.dump();
  return bench.codes();
}

// A checkpoint against the one it was made from.
Codes codes_against(const std::function<void(AuditBench& here)>& change, const Style& style = kMxfp4) {
  const Scratch scratch;
  AuditBench source(style), here(style);
  here.with_notes = true;
  source.files["merges.txt"] = "a b";
  here.files["merges.txt"] = "a b";
  change(here);
  source.write(scratch / "source");
  here.write(scratch / "here");
  here.request.against = scratch / "source";
  Codes codes = here.codes_in(scratch / "here");
  codes.erase("experts.complete");
  return codes;
}

}  // namespace

// --- config.json ---

TEST_CASE("config.missing") {
  CHECK(codes_after([](const std::string& at) {
          std::filesystem::remove(at + "/config.json");
        }).contains("config.missing"));
}
TEST_CASE("config.unreadable: config.json, and modelopt's own file") {
  CHECK(codes_after([](const std::string& at) {
          put_file(at + "/config.json", "{");
        }).contains("config.unreadable"));
  CHECK(codes_after([](const std::string& at) { put_file(at + "/hf_quant_config.json", "{"); }) ==
        Codes{"config.unreadable", "experts.refused"});  // it may hold the recipe
}

// --- index ---

TEST_CASE("index.unreadable") {
  AuditBench bench(kMxfp4);
  bench.index = "{";
  CHECK(bench.codes().contains("index.unreadable"));
}
TEST_CASE("index.absent: a tensor that no shard has") {
  CHECK(codes_with_index([](Json& index, AuditBench&) {
          index["weight_map"]["no.such.tensor"] = "model.safetensors";
        }).contains("index.absent"));
}
TEST_CASE("index.unlisted: a tensor that loaders never see") {
  CHECK(codes_with_index([](Json& index, AuditBench&) {
          index["weight_map"].erase("layers.0.attn_norm.weight");
        }).contains("index.unlisted"));
}
TEST_CASE("index.elsewhere: a tensor in another shard than the index says") {
  CHECK(codes_with_index([](Json& index, AuditBench& bench) {
          bench.files["other.safetensors"] = safetensors("{}");
          index["weight_map"]["layers.0.attn_norm.weight"] = "other.safetensors";
        }).contains("index.elsewhere"));
}
TEST_CASE("index.total-size") {
  CHECK(codes_with_index([](Json& index, AuditBench&) { index["metadata"]["total_size"] = 1; }) ==
        Codes{"index.total-size"});
}
TEST_CASE("index.extra-shard") {
  AuditBench bench(kMxfp4);
  bench.files["other.safetensors"] = safetensors("{}");
  CHECK(bench.codes() == Codes{"index.extra-shard"});
}

// --- shards ---

TEST_CASE("shards.none") {
  CHECK(codes_after([](const std::string& at) {
          std::filesystem::remove(at + "/model.safetensors");
          std::filesystem::remove(at + "/model.safetensors.index.json");
        }).contains("shards.none"));
}
TEST_CASE("shards.missing: the tensors of a missing shard are not reported again") {
  CHECK(codes_after([](const std::string& at) { std::filesystem::remove(at + "/model.safetensors"); }) ==
        Codes{"shards.missing"});
}
TEST_CASE("shards.lfs-pointer") {
  CHECK(codes_after([](const std::string& at) {
          put_file(at + "/model.safetensors",
                   "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n");
        }) == Codes{"shards.lfs-pointer"});
}
TEST_CASE("shards.unreadable: the last byte is not there") {
  CHECK(codes_after([](const std::string& at) {
          const std::string shard = at + "/model.safetensors";
          std::filesystem::resize_file(shard, std::filesystem::file_size(shard) - 1);
        }) == Codes{"shards.unreadable"});
}
TEST_CASE("shards.twice: the tensors of one shard in another") {
  CHECK(codes_after([](const std::string& at) {
          std::filesystem::copy(at + "/model.safetensors", at + "/model-copy.safetensors");
        }).contains("shards.twice"));
}

TEST_CASE("shards.permission: one sentence for all shards") {
  class Denied : public Os {
   public:
    int open(const char* path, int flags, mode_t mode) override {
      if (!std::string_view(path).ends_with(".safetensors")) return Os::open(path, flags, mode);
      errno = EACCES;
      return -1;
    }
  };
  const Scratch scratch;
  const AuditBench bench(kMxfp4);
  bench.write(scratch / "checkpoint");
  put_file(scratch / "checkpoint/other.safetensors", safetensors("{}"));
  Denied os;
  const AuditReport report = audit(Context{os}, {.checkpoint = scratch / "checkpoint"});
  CHECK(std::count_if(report.findings.begin(), report.findings.end(),
                      [](const Finding& finding) { return finding.code == "shards.permission"; }) == 1);
}

// --- files beside the shards ---

TEST_CASE("tokenizer.truncation and tokenizer.padding: what an exporter left on") {
  AuditBench bench(kMxfp4);
  bench.files["tokenizer.json"] = R"({"truncation": {"max_length": 512}})";
  CHECK(bench.codes() == Codes{"tokenizer.truncation"});
  bench.files["tokenizer.json"] = R"({"padding": {"length": 512}, "truncation": null})";
  CHECK(bench.codes() == Codes{"tokenizer.padding"});
}
TEST_CASE("tokenizer.unreadable") {
  AuditBench bench(kMxfp4);
  bench.files["tokenizer.json"] = "{";
  CHECK(bench.codes() == Codes{"tokenizer.unreadable"});
}
TEST_CASE("vision.processor: a tower and nothing that prepares images") {
  AuditBench bench(kMxfp4);
  bench.checkpoint.add("vision_tower.patch.weight", "BF16", {192});
  CHECK(bench.codes() == Codes{"vision.processor"});
  bench.files["preprocessor_config.json"] = "{}";
  CHECK(bench.codes() == Codes{});
}

// --- against the source ---

TEST_CASE("nothing is found of a copy") {
  CHECK(codes_against([](AuditBench&) {}) == Codes{});
}
TEST_CASE("tokenizer.missing") {
  CHECK(codes_against([](AuditBench& here) {
          here.files.erase("tokenizer.json");
        }).contains("tokenizer.missing"));
}
TEST_CASE("tokenizer.vocabulary") {
  const Scratch scratch;
  AuditBench source(kMxfp4), here(kMxfp4);
  source.files["tokenizer.json"] = R"({"model": {"vocab": {"a": 0, "b": 1}}})";
  here.files["tokenizer.json"] = R"({"model": {"vocab": {"a": 1, "b": 0}}})";
  source.write(scratch / "source");
  here.write(scratch / "here");
  here.request.against = scratch / "source";
  CHECK(here.codes_in(scratch / "here").contains("tokenizer.vocabulary"));
}
TEST_CASE("against.lost and against.mtp-lost") {
  CHECK(codes_against([](AuditBench& here) {
          here.checkpoint.remove("layers.0.attn_norm");
        }).contains("against.lost"));
  CHECK(codes_against([](AuditBench& here) { here.checkpoint.remove("mtp."); }).contains("against.mtp-lost"));
}
TEST_CASE("against.added") {
  CHECK(codes_against([](AuditBench& here) { here.checkpoint.add("extra.weight", "BF16", {192}); }) ==
        Codes{"against.added"});
}
TEST_CASE("against.changed: one bit outside the experts") {
  CHECK(codes_against([](AuditBench& here) { here.of("layers.1.ffn.gate.weight")[7] ^= 1; }) ==
        Codes{"against.changed"});
}
TEST_CASE("against.scales: one bit of an expert's scale; a weight may differ") {
  CHECK(codes_against([](AuditBench& here) { here.of(here.expert(0, "w1", "scale"))[7] ^= 1; }) ==
        Codes{"against.scales"});
  CHECK(codes_against([](AuditBench& here) { here.of(here.expert(0, "w1", "weight"))[7] ^= 1; }) == Codes{});
}
TEST_CASE("against.dtype: the same numbers, wider") {
  CHECK(codes_against([](AuditBench& here) {
          const std::string name = "layers.0.attn_norm.weight", narrow = here.of(name);
          std::string wide;
          for (std::size_t at = 0; at < narrow.size(); at += 2)
            wide.append(2, '\0').append(narrow.substr(at, 2));
          here.checkpoint[name].dtype = "F32";
          here.of(name) = wide;
        }) == Codes{"against.dtype"});
}
TEST_CASE("against.renamed: another prefix") {
  CHECK(
      codes_against(
          [](AuditBench& here) { here.checkpoint.rename("model.layers.0.attn_norm", "layers.0.attn_norm"); },
          kNvfp4)
          .contains("against.renamed"));
}
TEST_CASE("against.quantized: modules other than experts that the recipe quantized") {
  CHECK(codes_against([](AuditBench& here) {
          here.checkpoint["mtp.0.attn.wq.weight"].dtype = "F8_E4M3";
          here.contents.erase("mtp.0.attn.wq.weight");
          here.checkpoint.add("mtp.0.attn.wq.weight_scale_inv", "F32", {1, 2});
        }).contains("against.quantized"));
}

// --- caches ---

TEST_CASE("cache.unknown: the checkpoint cannot be read") {
  const Scratch scratch;
  AuditBench bench(kMxfp4);
  bench.checkpoint.remove("layers.1.ffn.experts.1.");
  bench.request.against_cache = scratch.path();
  CHECK(bench.codes().contains("cache.unknown"));
}

// Every finding of lib/audit needs a test.
TEST_CASE("each code of lib/audit is tested, here or beside") {
  const Codes elsewhere = {"cache.source"};  // takes a build: tests/cli/source.sh
  std::string tests;
  for (const char* name : {"audit_files_test.cc", "audit_experts_test.cc"})
    tests += file_contents(std::string(SOURCE_DIR "/tests/unit/") + name);
  const std::regex code(R"re(\{\s*"([a-z]+\.[a-z0-9-]+)",\s+(?:Severity|lost|inside))re");
  std::size_t found = 0;
  for (const auto& entry : std::filesystem::directory_iterator(SOURCE_DIR "/lib/audit")) {
    if (entry.path().extension() != ".cc") continue;
    const std::string source = file_contents(entry.path().string());
    for (std::sregex_iterator it(source.begin(), source.end(), code), end; it != end; ++it, ++found) {
      const std::string name = (*it)[1];
      CAPTURE(name);
      CHECK((elsewhere.contains(name) || tests.find('"' + name + '"') != std::string::npos));
    }
  }
  CHECK(found > 40);
}
