// What a tensor's name says about it (FORMAT.md section 2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/family.h"
#include "checkpoint/model.h"

namespace planesmith {

// The parts of an expert tensor's name that checkpoints spell in several ways. `stem`, `projections` and
// `suffix` are positions in the tables of tensor_name.cc and family.cc.
struct ExpertStyle {
  std::size_t block = 0, projections = 0, suffix = 0;
};

struct TensorName {
  enum class Kind {
    expert,          // a routed expert of a main layer; all members below hold
    draft_expert,    // the same of a drafter block, mtp.{layer}; left_as too
    fused_experts,   // ...experts.gate_up_proj and the like: all experts in one tensor
    strange_expert,  // below "experts", but not a name of FORMAT.md section 2
    other,           // left alone; left_as says why
  };
  Kind kind = Kind::other;
  bool main_layer = false;  // the name is that of a transformer layer < L; layer and prefix hold
  std::uint64_t layer = 0, expert = 0;
  Projection projection = Projection::w1;
  Role role = Role::weight;
  ExpertStyle style;
  std::string_view prefix;   // of the name: what stands before "layers."
  std::string_view left_as;  // "MTP", "shared experts", "router", ...
};

// L = layers: those from L on are drafters. rank: dimensions of the tensor. The result points into `name`.
TensorName parse_tensor_name(std::string_view name, std::uint64_t layers, std::size_t rank);

// How one checkpoint spells the names of its experts, learnt from them.
class ExpertSpelling {
 public:
  // L: layers from there on are spelt as drafter blocks.
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
