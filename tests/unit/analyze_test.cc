// repack-experts analyze: the reference's figures, and the nibbles that the engine made of requantized
// families.
#include "fidelity/analyze.h"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/os.h"
#include "fidelity/report.h"
#include "page/page.h"
#include "scratch.h"

using namespace planesmith;

namespace {

const std::string kGolden = SOURCE_DIR "/tests/golden/";

Fidelity fidelity_of(const std::string& model, int threads = 2) {
  return analyze(Context{.threads = threads}, {kGolden + model + "/checkpoint", {}}, choose_kernels("auto"));
}

// Counts the nibbles in part of a file that the engine wrote.
Counts nibbles_in(const std::string& file, std::size_t offset, std::size_t bytes) {
  const std::string all = file_contents(file);
  REQUIRE(offset + bytes <= all.size());
  Counts counts{};
  for (std::size_t i = offset; i < offset + bytes; ++i)
    ++counts[static_cast<std::uint8_t>(all[i]) & 15], ++counts[static_cast<std::uint8_t>(all[i]) >> 4];
  return counts;
}

TensorFidelity tensor_with(const Counts& counts) {
  TensorFidelity tensor;
  tensor.counts = counts;
  judge(tensor);
  return tensor;
}

}  // namespace

TEST_CASE("the reference's figures, to the last bit") {
  const Json golden = read_json(posix(), kGolden + "ds4-mini/bias.json");
  for (const int threads : {1, 3}) {
    const Json got = Json::parse(to_json(fidelity_of("ds4-mini", threads)).dump());
    REQUIRE(got["tensors"].size() == golden.size());
    for (const auto& [tensor, want] : golden.items())
      for (const auto& [figure, value] : want.items()) {
        const auto& this_tensor = tensor;  // clang 14 cannot capture structured bindings
        CAPTURE(this_tensor);
        const auto& this_figure = figure;  // clang 14 cannot capture structured bindings
        CAPTURE(this_figure);
        CHECK(got["tensors"][tensor].at(figure) == value);
      }
    CHECK(got["verdict"]["holds"] == true);
    CHECK(got["model"]["canonical"] == 18);
    CHECK(got["layers"].size() == 2);
    CHECK(got["worst"][0] == "layers.1.ffn.experts.2.w2.weight");
  }
}

TEST_CASE("requantized families are judged on the nibbles that the engine made") {
  for (const std::string model :
       {"fp8-edge", "glm-fp8-mini", "glm-nvfp4-mini", "kimi-nvfp4-mini", "nvfp4-edge"}) {
    CAPTURE(model);
    const Fidelity fidelity = fidelity_of(model);
    CHECK(fidelity.family != Family::mxfp4);
    const auto cache =
        std::filesystem::directory_iterator(kGolden + model + "/expected/tp1/planescache/v2")->path();
    int balanced = 0;
    for (const TensorFidelity& tensor : fidelity.tensors) {
      CAPTURE(tensor.name);
      const std::string stem = cache.string() + "/tp1-rank0/layer" + std::to_string(tensor.layer) + ".";
      const std::size_t bytes = tensor.served.deviation.elements / 2;
      const Counts want =
          tensor.projection == Projection::w2
              ? nibbles_in(stem + "fp2.bin", tensor.expert * bytes, bytes)
              : nibbles_in(stem + "fp13.bin",
                           (2 * tensor.expert + (tensor.projection == Projection::w3 ? 1 : 0)) * bytes,
                           bytes);
      CHECK(tensor.counts == want);
      REQUIRE(tensor.zero_modes.has_value());
      CHECK(tensor.counts ==
            (tensor.zero_modes->automatic_is_alt ? tensor.zero_modes->alt : tensor.zero_modes->sign));
      balanced += tensor.zero_modes->automatic_is_alt ? 1 : 0;
    }
    if (model == "kimi-nvfp4-mini") CHECK(balanced > 0);
    const Json json = Json::parse(to_json(fidelity).dump());
    CHECK(json["model"].contains("zero_modes"));
  }
}

TEST_CASE("one-sided zeros are what zero modes are for") {
  TensorFidelity tensor;
  tensor.zero_modes = TensorFidelity::ZeroModes{};
  tensor.zero_modes->sign = {800, 100, 100, 100, 100, 100, 100, 100, 0, 100, 100, 100, 100, 100, 100, 100};
  tensor.zero_modes->alt = tensor.zero_modes->sign;
  tensor.zero_modes->alt[0] = tensor.zero_modes->alt[8] = 400;
  judge(tensor);
  CHECK(tensor.served.deviation.bias() == doctest::Approx(800.0 / 2200));
  CHECK(tensor.bias_without_zeros == doctest::Approx(0));
  CHECK(tensor.positive_zeros() == 1);
  CHECK(tensor.zero_share() == doctest::Approx(800.0 / 2200));
  tensor.zero_modes->automatic_is_alt = true;
  judge(tensor);
  CHECK(tensor.served.deviation.bias() == doctest::Approx(0));
  CHECK(tensor.positive_zeros() == 0.5);
}

TEST_CASE("the verdict's thresholds") {
  FidelitySummary good;
  good.tensors = 100, good.canonical = 91;
  good.abs_bias_served = 0.0049, good.abs_bias_asymmetric = 0.1;
  good.rms_served = 0.35, good.rms_asymmetric = 0.34;
  CHECK(verdict(good).holds());
  const auto fails_at = [&](auto change) {
    FidelitySummary bad = good;
    change(bad);
    const Verdict result = verdict(bad);
    int at = -1;
    for (int i = 0; i < 4; ++i)
      if (!result.checks[static_cast<std::size_t>(i)].holds) at = at == -1 ? i : 9;
    CHECK(result.holds() == (at == -1));
    return at;
  };
  CHECK(fails_at([](auto& s) { s.abs_bias_served = 0.005; }) == 0);
  CHECK(fails_at([](auto& s) { s.abs_bias_asymmetric = 0.0049 / 0.1999; }) == -1);
  CHECK(fails_at([](auto& s) { s.abs_bias_asymmetric = 0.0049 / 0.201; }) == 1);
  CHECK(fails_at([](auto& s) { s.canonical = 90; }) == 2);
  CHECK(fails_at([](auto& s) { s.rms_served = 1.0501 * s.rms_asymmetric; }) == 3);
  CHECK(fails_at([](auto& s) { s.rms_served = 1.0499 * s.rms_asymmetric; }) == -1);
}

TEST_CASE("a tensor that another set fits better") {
  Counts small{};  // nothing beyond 1.5: {-4, -1, 1, 4} wastes two levels
  for (const unsigned m : {1u, 2u, 3u}) small[m] = small[m | 8] = 50;
  const TensorFidelity tensor = tensor_with(small);
  CHECK_FALSE(tensor.canonical());
  CHECK(levels_text(tensor.symmetric.levels) == "[-1.0, -0.5, 0.5, 1.0]");
  CHECK(tensor.served.deviation.rms_ratio() > tensor.symmetric.deviation.rms_ratio());
  CHECK(tensor_with(Counts{}).positive_zeros() == 0);
}

TEST_CASE("some layers only") {
  const AnalyzeOptions one{kGolden + "ds4-mini/checkpoint", std::vector<std::uint64_t>{1}};
  const Fidelity fidelity = analyze(Context{}, one, kScalarKernels);
  CHECK(fidelity.tensors.size() == 9);
  CHECK(layers(fidelity) == std::vector<std::uint64_t>{1});
  const AnalyzeOptions dense{kGolden + "glm-fp8-mini/checkpoint", std::vector<std::uint64_t>{0}};
  CHECK_THROWS_AS(analyze(Context{}, dense, kScalarKernels), Error);
  CHECK_THROWS_AS(analyze(Context{.memory = 100}, one, kScalarKernels), Error);
}

TEST_CASE("the report holds its data and the library, and no text can break out of it") {
  if (kChartLibrary.empty()) {
    CHECK_THROWS_AS(require_plotting_library(), Error);
    return;
  }
  Fidelity fidelity = fidelity_of("ds4-mini");
  fidelity.tensors[0].name = "</script><b>@@chart.js@@";
  const std::string page = report_html(
      fidelity,
      {.directory = "/models/<i>title", .content_id = "0123", .date = "today", .version = "planesmith"});
  CHECK(page.find("Chart.js v") != std::string::npos);
  CHECK(page.find("<i>title") == std::string::npos);
  CHECK(page.find("</script><b>") == std::string::npos);
  CHECK(page.find("@@data@@") == std::string::npos);
  const std::string mark = "id=\"data\">";
  const std::size_t begin = page.find(mark) + mark.size();
  const Json data = Json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  CHECK(data["title"] == "<i>title");
  CHECK(data["heat"]["bias"].size() == 2);
  CHECK(data["heat"]["bias"][0].size() == 3);
  CHECK(data["levels"]["names"].size() == 16);
  CHECK(data["worst"].size() == 18);
}
