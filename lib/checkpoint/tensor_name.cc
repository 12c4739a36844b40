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

// A number as names contain it: digits, no leading zero.
bool parse_number(std::string_view text, std::uint64_t& out) {
  if (text.empty() || (text.size() > 1 && text[0] == '0')) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

// The blocks that contain experts, and the names of projections, in the order of Projection.
constexpr std::string_view kBlocks[] = {"ffn", "mlp", "block_sparse_moe"};
constexpr std::array<std::string_view, kProjections> kProjectionNames[] = {
    {"w1", "w3", "w2"}, {"gate_proj", "up_proj", "down_proj"}};

bool has(const Parts& parts, std::initializer_list<std::string_view> any) {
  return std::find_first_of(parts.begin(), parts.end(), any.begin(), any.end()) != parts.end();
}
template <typename Test>
bool has_one(const Parts& parts, Test test) {
  return std::any_of(parts.begin(), parts.end(), test);
}
bool is_block(std::string_view part) {
  return std::find(std::begin(kBlocks), std::end(kBlocks), part) != std::end(kBlocks);
}

bool is_router(const Parts& parts) {
  for (std::size_t i = 1; i < parts.size(); ++i)
    if (parts[i] == "router" || (parts[i] == "gate" && is_block(parts[i - 1]))) return true;
  return false;
}

// Components outside the main language model, by the prefix of their names.
struct Component {
  std::string_view begins, left_as;
};
constexpr Component kComponents[] = {
    {"mtp", "MTP"},        {"vision", "vision"},       {"visual", "vision"},
    {"image_", "vision"},  {"mm_projector", "vision"}, {"multi_modal_projector", "vision"},
    {"audio", "audio"},    {"speech", "audio"},        {"draft", "drafters"},
    {"eagle", "drafters"}, {"medusa", "drafters"}};
std::string_view component_of(const Parts& parts) {
  for (const std::string_view part : parts)
    for (const Component& component : kComponents)
      if (component.begins == "mtp" ? part == "mtp" : part.starts_with(component.begins))
        return component.left_as;
  return "";
}

// The first match counts: a norm inside the attention is attention.
std::string_view kind_of(const Parts& parts) {
  if (has(parts, {"shared_experts", "shared_expert", "shared_expert_gate"})) return "shared experts";
  if (has(parts, {"attn", "self_attn", "attention", "linear_attn"})) return "attention";
  if (is_router(parts)) return "router";
  if (has_one(parts, [](std::string_view part) { return part.starts_with("hc_"); }))
    return "hyper-connections";
  if (has_one(parts, [](std::string_view part) { return part.ends_with("norm"); })) return "norms";
  if (has_one(parts, [](std::string_view part) { return part.starts_with("embed"); })) return "embeddings";
  if (has(parts, {"lm_head", "head"})) return "head";
  if (has_one(parts, is_block)) return "dense MLP";
  return "other";
}

// The position of the layer's number; 0: the name has none.
std::size_t layer_at(const Parts& parts) {
  std::uint64_t ignored = 0;
  for (std::size_t i = 0; i + 1 < parts.size(); ++i)
    if (parts[i] == "layers" && parse_number(parts[i + 1], ignored)) return i + 1;
  return 0;
}

// parts from `at` on: the block, "experts", the expert's number, the projection, the suffix.
bool parse_expert(const Parts& parts, std::size_t at, TensorName& out) {
  if (parts.size() != at + 5 || parts[at + 1] != "experts" || !parse_number(parts[at + 2], out.expert))
    return false;
  const auto place = [](const auto& table, auto test) {
    return static_cast<std::size_t>(std::find_if(std::begin(table), std::end(table), test) -
                                    std::begin(table));
  };
  out.style.block = place(kBlocks, [&](std::string_view block) { return block == parts[at]; });
  out.style.suffix = place(suffixes(), [&](const Suffix& known) { return known.text == parts[at + 4]; });
  if (out.style.block == std::size(kBlocks) || out.style.suffix == suffixes().size()) return false;
  out.role = suffixes()[out.style.suffix].role;
  for (out.style.projections = 0; out.style.projections < std::size(kProjectionNames);
       ++out.style.projections) {
    const auto& names = kProjectionNames[out.style.projections];
    const std::size_t p = place(names, [&](std::string_view known) { return known == parts[at + 3]; });
    out.projection = static_cast<Projection>(p);
    if (p != names.size()) return true;
  }
  return false;
}

}  // namespace

TensorName parse_tensor_name(std::string_view name, std::uint64_t layers, std::size_t rank) {
  const Parts parts = split(name);
  TensorName out;
  out.left_as = component_of(parts);
  if (!out.left_as.empty()) {
    if (parts[0] == "mtp" && parts.size() > 2 && parse_number(parts[1], out.layer) &&
        parse_expert(parts, 2, out))
      out.kind = TensorName::Kind::draft_expert;
    return out;
  }
  const std::size_t number = layer_at(parts);
  if (number != 0) {
    parse_number(parts[number], out.layer);
    if (out.layer >= layers) {
      out.beyond = true;
      out.left_as = "MTP";
      return out;
    }
    out.main_layer = true;
    out.prefix = name.substr(0, static_cast<std::size_t>(parts[number - 1].data() - name.data()));
  }

  const auto experts = std::find(parts.begin(), parts.end(), "experts");
  if (experts == parts.end()) {
    out.left_as = kind_of(parts);
    return out;
  }
  if (out.main_layer && parse_expert(parts, number + 1, out)) {
    out.kind = TensorName::Kind::expert;
    return out;
  }
  std::uint64_t ignored = 0;
  const bool numbered = experts + 1 != parts.end() && parse_number(experts[1], ignored);
  out.kind = rank >= 3 && !numbered ? TensorName::Kind::fused_experts : TensorName::Kind::strange_expert;
  return out;
}

void ExpertSpelling::learn(const TensorName& name) {
  if (!learnt_) {
    prefix_ = name.prefix;
    const std::size_t suffix = style_.suffix;
    style_ = name.style;
    style_.suffix = suffix;
    learnt_ = true;
  }
  if (name.role == Role::scale && !learnt_scale_) {
    style_.suffix = name.style.suffix;
    learnt_scale_ = true;
  }
}

std::string ExpertSpelling::name(std::uint64_t layer, std::uint64_t expert, Projection projection,
                                 Role role) const {
  std::string_view suffix;
  for (const Suffix& known : suffixes())
    if (known.role == role && suffix.empty()) suffix = known.text;
  if (role == Role::scale && learnt_scale_) suffix = suffixes()[style_.suffix].text;
  const std::string layer_name =
      layer >= layers_ ? fmt::format("mtp.{}", layer - layers_) : fmt::format("{}layers.{}", prefix_, layer);
  return fmt::format("{}.{}.experts.{}.{}.{}", layer_name, kBlocks[style_.block], expert,
                     kProjectionNames[style_.projections][static_cast<std::size_t>(projection)], suffix);
}

}  // namespace planesmith
