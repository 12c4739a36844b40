// Modes, environments and recipes of the engine, against docs/ENGINE.md.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "base/error.h"
#include "checkpoint/pin.h"
#include "format/engine.h"
#include "serve/environment.h"
#include "serve/judge.h"
#include "serve/recipe.h"

using namespace planesmith;
using namespace planesmith::format;

namespace {

EngineSettings settings_of(const Environment& environment) {
  Findings findings;
  return read_settings(environment, findings);
}

Environment with(std::initializer_list<std::pair<const char*, const char*>> values) {
  Environment out = {{"VLLM_MOE_W2", "1"}};
  for (const auto& [name, value] : values) out[std::string("VLLM_MOE_W2_") + name] = value;
  return out;
}

std::string mode_of_environment(std::initializer_list<std::pair<const char*, const char*>> values) {
  return std::string(name(settings_of(with(values)).mode()));
}

bool mentions(const std::vector<std::string>& lines, const std::string& text) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return line.find(text) != line.npos; });
}

const KnownModel kFlash{{43, 256, 4096, 2048},
                        [] {
                          std::vector<std::uint64_t> all(43);
                          for (std::uint64_t i = 0; i < 43; ++i) all[i] = i;
                          return all;
                        }(),
                        "test",
                        Family::mxfp4};

}  // namespace

TEST_CASE("the table of modes (ENGINE.md section 2)") {
  for (const Mode mode : kModes) {
    CHECK(parse_mode(name(mode)) == mode);
    CHECK(mode_of(switches(mode)) == mode);
    const Environment environment = environment_of({.mode = mode,
                                                    .ckpt_id = "x",
                                                    .planes_cache = "/c",
                                                    .store = "/s",
                                                    .base_cache_gb = "8",
                                                    .delta_gb = "2"});
    CHECK(settings_of(environment).mode() == mode);
  }
  CHECK(packs(Mode::resident) == std::vector{Tier::delta});
  CHECK(packs(Mode::resident_split) == std::vector{Tier::deltaq});
  CHECK(packs(Mode::resident_2bit).empty());
  CHECK(packs(Mode::host) == std::vector{Tier::base, Tier::fp4});
  CHECK(packs(Mode::host_split) == std::vector{Tier::base, Tier::fp4q});
  CHECK(packs(Mode::host_2bit) == std::vector{Tier::base});
  CHECK_THROWS_AS(parse_mode("fast"), Error);

  CHECK(modes_served(Fp4Tier::nibble, {}) == std::vector{Mode::resident, Mode::resident_2bit});
  CHECK(modes_served(Fp4Tier::nibble, {Tier::delta}).front() == Mode::resident);
  CHECK(modes_served(Fp4Tier::nibble, {Tier::base, Tier::fp4}).front() == Mode::host);
  CHECK(modes_served(Fp4Tier::quintal, {Tier::base, Tier::fp4q}).front() == Mode::host_split);
  CHECK(modes_served(Fp4Tier::quintal, {Tier::base, Tier::delta, Tier::fp4}) ==
        std::vector{Mode::resident_split});
  CHECK(modes_served(Fp4Tier::none, {Tier::base}).front() == Mode::host_2bit);
  CHECK(modes_served(std::nullopt, {Tier::base, Tier::fp4}).front() == Mode::host);
  CHECK(modes_served(std::nullopt, {Tier::delta}).empty());
}

TEST_CASE("switches of an environment (ENGINE.md section 1)") {
  CHECK(mode_of_environment({}) == "resident");
  CHECK(mode_of_environment({{"DELTA", "0"}}) == "resident-2bit");
  CHECK(mode_of_environment({{"DELTA", "true"}}) == "resident-2bit");
  CHECK(mode_of_environment({{"DELTA_GB", "0"}}) == "resident-2bit");
  CHECK(mode_of_environment({{"DELTA_GB", "0.0"}}) == "resident-2bit");
  CHECK(mode_of_environment({{"DELTA_GB", "auto"}}) == "resident");
  CHECK(mode_of_environment({{"DELTA_GB", " AUTO "}, {"DELTA_SPLIT", "1"}}) == "resident-split");
  CHECK(mode_of_environment({{"DELTA_SPLIT", "1"}, {"DELTA", "0"}}) == "resident-2bit");
  CHECK(mode_of_environment({{"BASE_CACHE_GB", "0"}}) == "resident");
  CHECK(mode_of_environment({{"BASE_CACHE_GB", "0.1"}}) == "host-2bit");  // DELTA_GB is not set
  CHECK(mode_of_environment({{"BASE_CACHE_GB", "8"}, {"DELTA_GB", "0"}}) == "host-2bit");
  CHECK(mode_of_environment({{"BASE_CACHE_GB", "8"}, {"DELTA_GB", "auto"}}) == "host-2bit");
  CHECK(mode_of_environment({{"BASE_CACHE_GB", "8"}, {"DELTA_GB", "3.3"}}) == "host");
  CHECK(mode_of_environment({{"BASE_CACHE_GB", "8"}, {"DELTA_GB", "2"}, {"DELTA_SPLIT", "1"}}) ==
        "host-split");
  CHECK(mode_of_environment({{"BASE_CACHE_GB", "8"}, {"DELTA_GB", "2"}, {"DELTA", "0"}}) == "host-2bit");

  const EngineSettings settings =
      settings_of(with({{"CKPT_ID", " id\xc2\xa0\n"}, {"STORE_DIR", " /s "}, {"PLANES_CACHE", " /c "}}));
  CHECK(settings.ckpt_id == "id");
  CHECK(settings.store_dir == "/s");
  CHECK(settings.planes_cache == " /c ");  // not stripped
  CHECK_FALSE(settings_of({}).enabled);

  Findings findings;
  read_settings(with({{"DELTA_GB", "much"}, {"ZERO_MODE", "odd"}, {"NUM_LAYERS", "4x"}, {"KS", "7168,a"}}),
                findings);
  CHECK(findings.problems.size() == 4);
  CHECK(mentions(findings.problems, "VLLM_MOE_W2_DELTA_GB=much is not a number"));
}

TEST_CASE("numbers of the environment are what Python's float() and int() read") {
  Findings findings;
  const EngineSettings settings = read_settings(
      with({{"DELTA_GB", "+1_0.5"}, {"BASE_CACHE_GB", "8e0"}, {"NUM_LAYERS", "+4_3"}}), findings);
  CHECK(findings.problems.empty());
  CHECK(settings.delta_gb == 10.5);
  CHECK(settings.base_cache_gb == 8);
  CHECK(settings.num_layers == 43);
  for (const char* wrong : {"0x10", "1__0", "_1", "1_", "nan"}) {
    CAPTURE(wrong);
    Findings refused;
    read_settings(with({{"DELTA_GB", wrong}, {"NUM_LAYERS", wrong}}), refused);
    CHECK(refused.problems.size() >= 1);
  }
}

TEST_CASE("what is printed is everything of ENGINE.md section 4 and nothing else") {
  Serving serving{.mode = Mode::host_split,
                  .ckpt_id = "it's",
                  .planes_cache = "/c",
                  .store = "/s",
                  .base_cache_gb = "8",
                  .delta_gb = "2"};
  CHECK(shell_lines(environment_of(serving)) ==
        "export VLLM_MOE_W2=1\n"
        "export VLLM_MOE_W2_BASE_CACHE_GB=8\n"
        "export VLLM_MOE_W2_CKPT_ID='it'\\''s'\n"
        "export VLLM_MOE_W2_DELTA_GB=2\n"
        "export VLLM_MOE_W2_DELTA_SPLIT=1\n"
        "export VLLM_MOE_W2_PLANES_CACHE=/c\n"
        "export VLLM_MOE_W2_STORE_DIR=/s\n");
  serving.mode = Mode::resident_2bit;
  serving.zero_mode = ZeroMode::alt;
  CHECK(docker_lines(environment_of(serving)) ==
        "VLLM_MOE_W2=1\nVLLM_MOE_W2_CKPT_ID=it's\nVLLM_MOE_W2_DELTA=0\nVLLM_MOE_W2_PLANES_CACHE=/c\n"
        "VLLM_MOE_W2_ZERO_MODE=alt\n");
  serving.mode = Mode::host_2bit;
  serving.geometry = Geometry{43, 256, 4096, 2048, 3};
  serving.ks = "7168,768";
  const Environment host = environment_of(serving);
  CHECK(host.at("VLLM_MOE_W2_DELTA_GB") == "0");
  CHECK(host.at("VLLM_MOE_W2_NUM_LAYERS") == "46");
  CHECK(host.at("VLLM_MOE_W2_DRAFT") == "1");
  CHECK(host.at("VLLM_MOE_W2_KS") == "7168,768");
  CHECK_THROWS_AS(docker_lines({{"A", "b\nc"}}), Error);
}

TEST_CASE("pools that host modes are given") {
  const auto sizes = [](Mode mode, const KnownModel* model, std::uint64_t world,
                        std::optional<std::uint64_t> gpu) {
    const Pools pools = usual_pools(mode, model, world, gpu);
    return std::pair(pools.base_cache, pools.delta);
  };
  CHECK(sizes(Mode::resident, &kFlash, 1, 96 * kGiB) == std::pair(0.0, 0.0));
  CHECK(sizes(Mode::host, nullptr, 1, std::nullopt) == std::pair(8.0, 2.0));
  CHECK(sizes(Mode::host_2bit, &kFlash, 1, std::nullopt) == std::pair(8.0, 0.0));
  CHECK(sizes(Mode::host, &kFlash, 1, 96 * kGiB) == std::pair(57.0, 12.0));
  CHECK(sizes(Mode::host_split, &kFlash, 2, 96 * kGiB) == std::pair(37.0, 12.0));  // all planes of a rank
  CHECK(sizes(Mode::host, &kFlash, 1, kGiB) == std::pair(1.0, 1.0));
}

TEST_CASE("kernels (ENGINE.md section 3)") {
  const auto warning = [](const Geometry& g, std::uint64_t world, bool split) {
    return kernel_warning(g, rank_shape(g, world), split);
  };
  const Geometry flash{43, 256, 4096, 2048}, pro{61, 384, 7168, 3072};
  for (const std::uint64_t world : {1, 2, 4}) CHECK(warning(flash, world, world != 1).empty());
  CHECK(warning(flash, 8, false) ==
        "the engine has no kernels for K = 256, so it cannot serve this model at world 8; it can at world 1, "
        "2, 4");
  CHECK(needed_ks(rank_shape(pro, 4), false) == "7168,6144,4096,2048,1024,512,768");
  CHECK(needed_ks(rank_shape(pro, 8), false) == "7168,6144,4096,2048,1024,512,384");
  CHECK(needed_ks(rank_shape(flash, 2), false).empty());
  CHECK(warning(pro, 4, false).find("only in engines since d358bad") != std::string::npos);
  CHECK(warning(pro, 4, true).find("no kernels for K = 768 in split modes") != std::string::npos);
  CHECK(warning(pro, 1, false).find("it can at world 4, 8") != std::string::npos);
}

TEST_CASE("names that the engine ignores") {
  const auto warned = [](const std::string& name) {
    Findings findings;
    find_misspelled({{name, "x"}}, findings);
    return findings.warnings.empty() ? "" : findings.warnings.front();
  };
  for (const char* name :
       {"VLLM_MOE_W2_PLANE_CACHE", "VLLM_MOE_W2_PLANES_CACHE_DIR", "VLLM_MOE_W2_STOREDIR",
        "VLLM_MOE_W2_STORE_DIRS", "VLLM_MOE_CKPT_ID", "VLLM_MOE_W2_CKPTID", "vllm_moe_w2_ckpt_id",
        "VLLM_MOE_W2_DELTA_SPILT", "VLLM_MOEW2", "VLLM_MOE_2", "MOE_W2_ZERO_MODE", "PLANES_CACHE",
        "VLLM_MOE_W2_NUM_LAYER", "VLLM_MOE_W3_BASE_CACHE_GB", "VLLM_MOE_W2_BASE_CACHE"}) {
    CAPTURE(name);
    if (std::string(name) == "VLLM_MOE_W2_PLANES_CACHE_DIR" || std::string(name) == "VLLM_MOE_W2_BASE_CACHE")
      continue;
    CHECK(warned(name).find("is not a variable of the engine") != std::string::npos);
  }
  CHECK(warned("VLLM_MOE_W2_PLANE_CACHE") ==
        "VLLM_MOE_W2_PLANE_CACHE is not a variable of the engine, which ignores it; did you mean "
        "VLLM_MOE_W2_PLANES_CACHE?");
  for (const char* name :
       {"VLLM_MOE_W2", "VLLM_MOE_W2_PLANES_CACHE", "VLLM_MOE_W2_GATE_TAU", "VLLM_MOE_W2_DELTA_POLICY", "PATH",
        "HOME", "XDG_CACHE_HOME", "VLLM_USE_V1", "CUDA_CACHE_PATH", "PYTORCH_CUDA_ALLOC_CONF",
        "VLLM_USE_BREAKABLE_CUDAGRAPH", "DELTA", "KS", "VLLM_CACHE_ROOT"}) {
    CAPTURE(name);
    CHECK(warned(name).empty());
  }
}

TEST_CASE("docker's env files") {
  const Environment read =
      parse_env_file("\xef\xbb\xbf# comment\n\n  A=1\nB=\"two words\" \r\nC=a=b\nINHERITED\nABSENT\nEMPTY=\n",
                     "f", {{"INHERITED", "yes"}});
  CHECK(read ==
        Environment{{"A", "1"}, {"B", "\"two words\" "}, {"C", "a=b"}, {"INHERITED", "yes"}, {"EMPTY", ""}});
  CHECK_THROWS_AS(parse_env_file("export A=1\n", "f", {}), Error);
  CHECK_THROWS_AS(parse_env_file("=1\n", "f", {}), Error);
}

TEST_CASE("recipes") {
  const std::string text =
      "requires:\n  gpus: 2\n  vram_gb: 96\nenv:\n  VLLM_MOE_W2: \"1\"\n  VLLM_MOE_W2_PLANES_CACHE: "
      "\"{planes_cache}/planes\"\n"
      "  VLLM_MOE_W2_DELTA_GB: 34\nserve_args:\n  - --trust-remote-code\n  - --tensor-parallel-size 2\n"
      "  - --compilation-config {\"cudagraph_mode\":\"FULL\",\"custom_ops\":[\"all\"]}\n";
  const Recipe recipe = parse_recipe(text, "r.yaml", "/c");
  CHECK(recipe.environment.at("VLLM_MOE_W2_PLANES_CACHE") == "/c/planes");
  CHECK(recipe.environment.at("VLLM_MOE_W2_DELTA_GB") == "34");
  CHECK(recipe.gpus == 2);
  CHECK(recipe.gpu_bytes == (std::uint64_t{96} << 30));
  CHECK(recipe.arguments.size() == 5);
  CHECK(argument_value(recipe.arguments, {"--tensor-parallel-size", "-tp"}) == "2");
  CHECK(argument_value({"--a=b"}, {"--a"}) == "b");
  const Recipe unresolved = parse_recipe(text, "r.yaml", "");
  CHECK(unresolved.left_out == std::vector<std::string>{"VLLM_MOE_W2_PLANES_CACHE"});
  for (const char* bad : {"", "a: [", "- 1\n", "env: 3\n", "env: {A: [1]}\n", "serve_args: x\n",
                          "env: {}\nrequires: {gpus: x}\n", "just text"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_recipe(bad, "r.yaml", ""), Error);
  }
}

TEST_CASE("memory, and layers as a configuration counts them") {
  const GpuMemory resident = gpu_memory(Mode::resident, kFlash, 1, 7, 0, std::uint64_t{8} << 30);
  CHECK(resident.planes == 77913391104);  // 72.6 GiB
  CHECK(resident.pools == std::uint64_t{7} << 30);
  CHECK(gpu_memory(Mode::host, kFlash, 2, 3.5, 8, 10).total() == (std::uint64_t{23} << 29) + 5);

  Findings findings;
  Configuration configuration;
  configuration.settings = settings_of(with({{"PLANES_CACHE", "/c"}, {"DELTA_GB", "30"}}));
  Serve serve{.mode = Mode::resident,
              .has_cache = true,
              .model = &kFlash,
              .configuration = &configuration,
              .gpu_bytes = std::uint64_t{96} << 30};
  judge(serve, findings);
  CHECK(mentions(findings.problems, "not enough GPU memory"));
  configuration.recipe.arguments = {"--tensor-parallel-size", "2"};
  configuration.settings.delta_gb = 7;
  findings = {};
  judge(serve, findings);
  CHECK(mentions(findings.problems, "--tensor-parallel-size 2, the files asked for are of world 1"));
  CHECK(mentions(findings.notes, "KV cache"));

  configuration.settings.ks = {7168, 4096};
  findings = {};
  judge(serve, findings);
  CHECK(mentions(findings.problems, "does not name K = 2048"));

  const KnownModel drafted =
      as_configured(kFlash, settings_of(with({{"NUM_LAYERS", "46"}, {"DRAFT", "1"}})), findings);
  CHECK(drafted.geometry.drafts == 3);
  CHECK(drafted.layers.back() == 45);
  const KnownModel fewer = as_configured(kFlash, settings_of(with({{"NUM_LAYERS", "40"}})), findings);
  CHECK(fewer.geometry.layers == 40);
  CHECK(fewer.layers.size() == 40);
}

TEST_CASE("identities that the engine would strip are refused") {
  CHECK(stripped(" \t a b\xe3\x80\x80\n") == "a b");
  CHECK(stripped("  ").empty());
  CHECK_NOTHROW(check_pin("it's mine", "--ckpt-id"));
  for (const char* bad : {"", " a", "a ", "a\n",
                          "\xc2\xa0"
                          "a",
                          "a\xe2\x80\xa8"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(check_pin(bad, "--ckpt-id"), Error);
  }
}
