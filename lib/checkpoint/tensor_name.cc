#include "checkpoint/tensor_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <initializer_list>
#include <vector>

namespace planesmith {
namespace {

using Parts = std::vector<std::string_view>;

Parts split(std::string_view name) {
  Parts parts;
  for (;;) {
    const std::size_t dot = std::min(name.find('.'), name.size());
    parts.push_back(name.substr(0, dot));
    if (dot == name.size()) return parts;
    name.remove_prefix(dot + 1);
  }
}

// A number as the names carry it: digits, no leading zero.
bool parse_number(std::string_view text, std::uint64_t& out) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

struct Stem {
  std::string_view block;
  std::array<std::string_view, kProjections> projections;  // in the order of Projection
};
constexpr Stem kShort{"ffn", {"w1", "w3", "w2"}}, kLong{"mlp", {"gate_proj", "up_proj", "down_proj"}};

struct Suffix {
  std::string_view text;
  Role role;
};
constexpr Suffix kSuffixes[] = {{"weight", Role::weight},
                                {"scale", Role::block_scale},
                                {"weight_scale_inv", Role::block_scale},
                                {"weight_scale", Role::group_scale},
                                {"weight_scale_2", Role::scale_2},
                                {"input_scale", Role::input_scale}};

bool has(const Parts& parts, std::initializer_list<std::string_view> any) {
  return std::find_first_of(parts.begin(), parts.end(), any.begin(), any.end()) != parts.end();
}
template <typename Test>
bool has_one(const Parts& parts, Test test) {
  return std::any_of(parts.begin(), parts.end(), test);
}

bool is_router(const Parts& parts) {
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (parts[i] == "router" || (parts[i] == "gate" && (parts[i - 1] == "ffn" || parts[i - 1] == "mlp")))
      return true;
  return false;
}

// The first row that fits: a norm inside the attention is attention.
std::string_view kind_of(const Parts& parts) {
  if (has(parts,
          {"visual", "vision", "vision_model", "vision_tower", "mm_projector", "multi_modal_projector"}))
    return "vision";
  if (has(parts, {"shared_experts", "shared_expert", "shared_expert_gate"})) return "shared experts";
  if (has(parts, {"attn", "self_attn", "attention", "linear_attn"})) return "attention";
  if (is_router(parts)) return "router";
  if (has_one(parts, [](std::string_view part) { return part.starts_with("hc_"); }))
    return "hyper-connections";
  if (has_one(parts, [](std::string_view part) { return part.ends_with("norm"); })) return "norms";
  if (has_one(parts, [](std::string_view part) { return part.starts_with("embed"); })) return "embeddings";
  if (has(parts, {"lm_head", "head"})) return "head";
  if (has(parts, {"mlp", "ffn"})) return "dense MLP";
  return "other";
}

// Where the layer's number stands, given the prefixes that main layers may have; 0 where the name is none of
// a layer.
std::size_t layer_at(const Parts& parts) {
  const std::size_t at = parts[0] == "model"                                                       ? 1
                         : parts[0] == "language_model" && parts.size() > 1 && parts[1] == "model" ? 2
                                                                                                   : 0;
  return parts.size() > at + 1 && parts[at] == "layers" ? at + 1 : 0;
}

// parts from `at` on: "experts", the expert's number, the projection, the suffix.
bool parse_expert(const Parts& parts, std::size_t at, const Stem& stem, TensorName& out) {
  if (parts.size() != at + 4 || !parse_number(parts[at + 1], out.expert)) return false;
  const auto projection = std::find(stem.projections.begin(), stem.projections.end(), parts[at + 2]);
  const auto suffix = std::find_if(std::begin(kSuffixes), std::end(kSuffixes),
                                   [&](const Suffix& known) { return known.text == parts[at + 3]; });
  if (projection == stem.projections.end() || suffix == std::end(kSuffixes)) return false;
  out.projection = static_cast<Projection>(projection - stem.projections.begin());
  out.role = suffix->role;
  return true;
}

}  // namespace

TensorName parse_tensor_name(std::string_view name, std::uint64_t layers, std::size_t rank) {
  const Parts parts = split(name);
  TensorName out;
  if (has(parts, {"mtp"})) {
    out.left_as = "MTP";
    if (parts[0] == "mtp" && parts.size() > 3 && parts[3] == "experts" && parse_number(parts[1], out.layer))
      for (const Stem& stem : {kShort, kLong})
        if (parts[2] == stem.block && parse_expert(parts, 3, stem, out))
          out.kind = TensorName::Kind::draft_expert;
    return out;
  }
  const std::size_t number = layer_at(parts);
  if (number != 0 && parse_number(parts[number], out.layer)) {
    if (out.layer >= layers) {
      out.left_as = "MTP";
      return out;
    }
    out.main_layer = true;
  }

  const auto experts = std::find(parts.begin(), parts.end(), "experts");
  if (experts == parts.end()) {
    out.left_as = kind_of(parts);
    return out;
  }
  const auto at = static_cast<std::size_t>(experts - parts.begin());
  if (out.main_layer && at == number + 2)
    for (const Stem& stem : {kShort, kLong})
      if (parts[number + 1] == stem.block && parse_expert(parts, at, stem, out)) {
        out.kind = TensorName::Kind::expert;
        return out;
      }
  std::uint64_t ignored = 0;
  const bool numbered = at + 1 < parts.size() && parse_number(parts[at + 1], ignored);
  out.kind = rank >= 3 && !numbered ? TensorName::Kind::fused_experts : TensorName::Kind::strange_expert;
  return out;
}

void ExpertSpelling::learn(std::string_view name, Role role) {
  if (prefix_.empty()) {
    constexpr std::string_view kLayers = "layers.";
    prefix_ = name.substr(0, name.find(kLayers) + kLayers.size());
    short_ = name.find(".ffn.") != name.npos;
  }
  if (role == Role::block_scale && block_scale_.empty())
    block_scale_ = name.ends_with("_inv") ? kSuffixes[2].text : kSuffixes[1].text;
}

std::string ExpertSpelling::name(std::uint64_t layer, std::uint64_t expert, Projection projection,
                                 Role role) const {
  const Stem& stem = short_ ? kShort : kLong;
  std::string_view suffix;
  for (const Suffix& known : kSuffixes)
    if (known.role == role && suffix.empty()) suffix = known.text;
  if (role == Role::block_scale)
    suffix = !block_scale_.empty() ? block_scale_ : kSuffixes[short_ ? 1 : 2].text;
  const bool draft = layer >= layers_;
  return fmt::format("{}{}.{}.experts.{}.{}.{}", draft ? "mtp." : prefix_, draft ? layer - layers_ : layer,
                     stem.block, expert, stem.projections[static_cast<std::size_t>(projection)], suffix);
}

}  // namespace planesmith
