// How well a model's experts tolerate the 2-bit codebook: figures per tensor, per layer and for the model,
// and a verdict. All figures are in units of e2m1, before the scales.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "checkpoint/model.h"
#include "codebook/fit.h"

namespace planesmith {

// A codebook on one tensor.
struct CodebookFit {
  LevelSet levels = 0;
  Deviation deviation;
};

// Relative error of quantized weights against their float originals.
struct FloatCost {
  double bias = 0;  // sum of (new - old) / sum of |old|
  double rms = 0;   // root of (sum of (new - old)^2 / sum of old^2)
};

struct TensorFidelity {
  std::string name;
  std::uint64_t layer = 0, expert = 0;  // layer index
  Projection projection = Projection::w1;
  Counts counts{};  // of nibbles; in requantized families under zero mode auto

  // Requantized families, which choose the signs of exact zeros: the nibbles under the two modes of a tensor,
  // and whether auto (for a single rank) is alt.
  struct ZeroModes {
    Counts sign{}, alt{};
    bool automatic_is_alt = false;
  };
  std::optional<ZeroModes> zero_modes;

  // Float sources, which are judged as the NVFP4 that quantize makes of them:
  // the error of that NVFP4, and of the 2-bit planes served from it.
  struct Costs {
    FloatCost nvfp4, served;
  };
  std::optional<Costs> costs;

  CodebookFit asymmetric;         // the optimum of 4 levels; every zero goes the same way
  CodebookFit symmetric;          // the best {-b, -a, a, b}
  CodebookFit served;             // {-4, -1, 1, 4}, which the engine uses
  double bias_without_zeros = 0;  // of `symmetric`, if its zeros cancelled out

  bool canonical() const { return symmetric.levels == kCanonicalSet; }
  double zero_share() const;      // of all elements
  double positive_zeros() const;  // of the zeros
};
// Fills in everything that follows from counts and zero_modes.
void judge(TensorFidelity& tensor);

// Means over tensors, each counting once.
struct FidelitySummary {
  std::uint64_t tensors = 0, canonical = 0;  // canonical: those whose best symmetric set is {-4, -1, 1, 4}
  double bias_asymmetric = 0, bias_symmetric = 0, bias_served = 0;              // means of the signed bias
  double abs_bias_asymmetric = 0, abs_bias_symmetric = 0, abs_bias_served = 0;  // means of |bias|
  double rms_asymmetric = 0, rms_symmetric = 0, rms_served = 0;                 // means of the relative RMS
  // If requantized: means of |bias| of the served codebook under the zero modes sign and alt.
  bool requantized = false;
  double abs_bias_sign = 0, abs_bias_alt = 0;
  // If of_floats: means of the relative RMS and of |bias| against the floats.
  bool of_floats = false;
  double rms_nvfp4 = 0, rms_codebook = 0, abs_bias_nvfp4 = 0, abs_bias_codebook = 0;
};

struct Fidelity {
  Family family = Family::mxfp4;
  format::Geometry geometry{};
  std::vector<TensorFidelity> tensors;  // by layer, expert, projection
  std::string source;                   // dtype of a float source; else empty
};
FidelitySummary summary(const Fidelity& fidelity);
FidelitySummary summary(const Fidelity& fidelity, std::uint64_t layer);
std::vector<std::uint64_t> layers(const Fidelity& fidelity);  // layer indices, sorted
// At most `most` tensors, by |bias| of the served codebook, descending.
std::vector<const TensorFidelity*> worst(const Fidelity& fidelity, std::size_t most);

// Limits of a model that the 2-bit codebook is expected to serve well.
inline constexpr double kMostBias = 0.005;      // mean |bias| of the served codebook, strictly below
inline constexpr double kMostBiasShare = 0.2;   // its share of the asymmetric optimum's
inline constexpr double kLeastCanonical = 0.9;  // share of tensors with the canonical set, strictly above
inline constexpr double kMostRms = 1.05;        // mean relative RMS of the served codebook / the optimum's

struct Verdict {
  struct Check {
    std::string text;  // with the figure and the threshold
    bool holds = false;
  };
  std::vector<Check> checks;
  bool holds() const;
};
Verdict verdict(const FidelitySummary& model);

nlohmann::ordered_json to_json(const Fidelity& fidelity);

}  // namespace planesmith
