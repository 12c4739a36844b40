// Every set of kernels against the planes that the engine's own code wrote (tests/golden/README.md), one
// expert's tensors at a time, zero balance included.
#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "format/planes.h"
#include "quant/kernels.h"

namespace planesmith {
namespace {

namespace fs = std::filesystem;

struct Tensor {
  std::vector<std::uint64_t> shape;
  std::vector<std::uint8_t> bytes;
};

std::map<std::string, Tensor> read_tensors(const std::string& directory) {
  std::map<std::string, Tensor> tensors;
  for (const auto& entry : fs::directory_iterator(directory)) {
    if (entry.path().extension() != ".safetensors") continue;
    const std::string text = read_text(posix(), entry.path(), 64 << 20);
    std::uint64_t header_bytes;
    std::memcpy(&header_bytes, text.data(), sizeof header_bytes);
    const Json header = Json::parse(text.substr(8, header_bytes));
    for (const auto& [name, value] : header.items()) {
      if (name == "__metadata__") continue;
      const auto range = value["data_offsets"].get<std::vector<std::uint64_t>>();
      const std::uint8_t* data = bytes_of(text).data() + 8 + header_bytes;
      tensors[name] = {value["shape"], {data + range[0], data + range[1]}};
    }
  }
  return tensors;
}

enum class Family { mxfp4, fp8, nvfp4 };

// One matrix [rows, cols] of an expert; the same members serve as any of the three slices.
struct Matrix {
  Family family;
  const std::map<std::string, Tensor>* tensors;
  std::string stem;

  const Tensor& part(const char* suffix) const { return tensors->at(stem + suffix); }
  std::uint64_t rows() const { return part(".weight").shape[0]; }
  std::uint64_t cols() const { return part(".weight").shape[1] * (family == Family::fp8 ? 1 : 2); }

  Fp8Slice fp8() const {
    const Tensor &weight = part(".weight"), &scale = part(".weight_scale_inv");
    return {rows(), cols(), weight.bytes.data(), cols(), scale.bytes.data(), 4 * scale.shape[1],
            128,    128,    ScaleType::f32};
  }
  Nvfp4Slice nvfp4() const {
    float scale_2;
    std::memcpy(&scale_2, part(".weight_scale_2").bytes.data(), sizeof scale_2);
    return {rows(),      cols(), part(".weight").bytes.data(), cols() / 2, part(".weight_scale").bytes.data(),
            cols() / 16, scale_2};
  }
  Mxfp4Slice mxfp4() const {
    return {rows(),     cols(), part(".weight").bytes.data(), cols() / 2, part(".scale").bytes.data(),
            cols() / 32};
  }

  ZeroCount zeros(const Kernels& kernels) const {
    ZeroCount count;
    convert(kernels, ZeroSigns::keep, {}, &count);
    return count;
  }
  bool convert(const Kernels& kernels, ZeroSigns signs, const PlaneTarget& to,
               ZeroCount* zeros = nullptr) const {
    if (family == Family::mxfp4) return kernels.mxfp4(mxfp4(), to);
    return family == Family::fp8 ? kernels.fp8(fp8(), signs, to, zeros)
                                 : kernels.nvfp4(nvfp4(), signs, to, zeros);
  }
};

struct Planes {
  std::string codes, nibbles, scales;
};

// Appends the planes of matrices that are stacked by rows.
void append(const Kernels& kernels, const std::vector<Matrix>& matrices, Planes& to) {
  ZeroCount count;
  for (const Matrix& m : matrices) count += m.zeros(kernels);
  for (const Matrix& m : matrices) {
    std::vector<std::uint8_t> codes(format::code_bytes(m.rows(), m.cols())), nibbles(2 * codes.size()),
        scales(format::scale_bytes(m.rows(), m.cols()));
    const PlaneTarget target = {codes.data(), nibbles.data(), nullptr, scales.data()};
    REQUIRE(m.convert(kernels, one_signed(count) ? ZeroSigns::alternate : ZeroSigns::keep, target));
    to.codes.append(codes.begin(), codes.end());
    to.nibbles.append(nibbles.begin(), nibbles.end());
    to.scales.append(scales.begin(), scales.end());
  }
}

void check_model(const std::string& model, Family family, const std::string& prefix, const char* gate,
                 const char* up, const char* down) {
  CAPTURE(model);
  const std::string root = std::string(SOURCE_DIR) + "/tests/golden/" + model;
  const auto tensors = read_tensors(root + "/checkpoint");
  std::string directory;
  for (const auto& entry : fs::directory_iterator(root + "/expected/tp1/planescache/v2"))
    directory = entry.path();
  int layers = 0;
  for (int layer = 0; layer < 4; ++layer) {
    const std::string parts = directory + "/tp1-rank0/layer" + std::to_string(layer) + ".";
    if (!fs::exists(parts + "planes13.bin")) continue;
    ++layers;
    for (const Kernels* kernels : available_kernels()) {
      CAPTURE(kernels->name);
      Planes w13, w2;
      for (int expert = 0;; ++expert) {
        const std::string stem = prefix + "layers." + std::to_string(layer) +
                                 (family == Family::mxfp4 ? ".ffn.experts." : ".mlp.experts.") +
                                 std::to_string(expert) + ".";
        if (tensors.count(stem + gate + ".weight") == 0) break;
        append(*kernels, {{family, &tensors, stem + gate}, {family, &tensors, stem + up}}, w13);
        append(*kernels, {{family, &tensors, stem + down}}, w2);
      }
      const auto expected = [&](const char* part) {
        return read_text(posix(), parts + part + ".bin", 64 << 20);
      };
      CHECK(w13.codes == expected("planes13"));
      CHECK(w13.nibbles == expected("fp13"));
      CHECK(w13.scales == expected("sc13"));
      CHECK(w2.codes == expected("planes2"));
      CHECK(w2.nibbles == expected("fp2"));
      CHECK(w2.scales == expected("sc2"));
    }
  }
  CHECK(layers > 0);
}

}  // namespace

TEST_CASE("kernels give the engine's planes") {
  check_model("ds4-mini", Family::mxfp4, "", "w1", "w3", "w2");
  check_model("glm-fp8-mini", Family::fp8, "model.", "gate_proj", "up_proj", "down_proj");
  check_model("fp8-edge", Family::fp8, "model.", "gate_proj", "up_proj", "down_proj");
  check_model("glm-nvfp4-mini", Family::nvfp4, "model.", "gate_proj", "up_proj", "down_proj");
  check_model("kimi-nvfp4-mini", Family::nvfp4, "language_model.model.", "gate_proj", "up_proj", "down_proj");
  check_model("nvfp4-edge", Family::nvfp4, "model.", "gate_proj", "up_proj", "down_proj");
}

}  // namespace planesmith
