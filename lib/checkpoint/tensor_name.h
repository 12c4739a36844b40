// Parses tensor names (FORMAT.md section 2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/family.h"
#include "checkpoint/model.h"

namespace planesmith {

// The parts of an expert tensor's name that checkpoints spell in several ways. `block`, `projections` and
// `suffix` are positions in the tables of tensor_name.cc and family.cc.
struct ExpertStyle {
  std::size_t block = 0, projections = 0, suffix = 0;
};

struct TensorName {
  enum class Kind {
    expert,          // a routed expert of a main layer; sets all members below but left_as
    draft_expert,    // the same of a drafter block, mtp.{layer}; sets left_as, not prefix
    fused_experts,   // ...experts.gate_up_proj and the like: all experts in one tensor
    strange_expert,  // below "experts", but not a name of FORMAT.md section 2
    other,           // left alone; left_as says why
  };
  Kind kind = Kind::other;
  bool main_layer = false;  // of a transformer layer < L; layer and prefix are set
  bool beyond = false;      // of a layer >= L; layer is set
  std::uint64_t layer = 0, expert = 0;
  Projection projection = Projection::w1;
  Role role = Role::weight;
  ExpertStyle style;
  std::string_view prefix;   // the part of the name before "layers."
  std::string_view left_as;  // "MTP", "shared experts", "router", ...
};

// layers: L; layers from L on are drafters. rank: dimensions of the tensor. The result points into `name`.
TensorName parse_tensor_name(std::string_view name, std::uint64_t layers, std::size_t rank);

// How one checkpoint spells its experts' names, learnt from some of them.
class ExpertSpelling {
 public:
  // layers: L; layers from L on are spelt as drafter blocks.
  explicit ExpertSpelling(std::uint64_t layers = 0) : layers_(layers) {}
  void learn(const TensorName& name);  // of kind `expert`
  std::string name(std::uint64_t layer, std::uint64_t expert, Projection projection, Role role) const;

 private:
  std::uint64_t layers_;
  std::string prefix_;
  bool learnt_ = false, learnt_scale_ = false;
  ExpertStyle style_;  // suffix: of scales
};

}  // namespace planesmith
