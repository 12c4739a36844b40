// What a tensor's name says about it (FORMAT.md section 2).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/model.h"

namespace planesmith {

// A tensor of one projection of one routed expert.
enum class Role { weight, block_scale, group_scale, scale_2, input_scale };
inline constexpr int kRoles = 5;

struct TensorName {
  enum class Kind {
    expert,          // a routed expert of a main layer; all members below hold
    draft_expert,    // the same of a drafter block, mtp.{layer}; left_as too
    fused_experts,   // ...experts.gate_up_proj and the like: all experts in one tensor
    strange_expert,  // below "experts", but not a name of FORMAT.md section 2
    other,           // left alone; left_as says why
  };
  Kind kind = Kind::other;
  bool main_layer = false;  // the name is that of a transformer layer < L; layer holds
  std::uint64_t layer = 0, expert = 0;
  Projection projection = Projection::w1;
  Role role = Role::weight;
  std::string_view left_as;  // "MTP", "shared experts", "router", ...
};

// L = layers: those from L on are drafters. rank: dimensions of the tensor.
TensorName parse_tensor_name(std::string_view name, std::uint64_t layers, std::size_t rank);

// How one checkpoint spells the names of its experts, learnt from any of them.
class ExpertSpelling {
 public:
  // L: layers from there on are spelt as drafter blocks.
  explicit ExpertSpelling(std::uint64_t layers = 0) : layers_(layers) {}
  // weight_or_scale: the name of a tensor of kind `expert`.
  void learn(std::string_view name, Role role);
  std::string name(std::uint64_t layer, std::uint64_t expert, Projection projection, Role role) const;

 private:
  std::uint64_t layers_;
  std::string prefix_;  // up to and including "layers."
  bool short_ = true;   // ffn, w1, w3, w2; else mlp, gate_proj, up_proj, down_proj
  std::string_view block_scale_;
};

}  // namespace planesmith
