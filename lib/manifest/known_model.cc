#include "manifest/known_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"

namespace planesmith {

KnownModel model_of_manifest(const CacheFacts& facts, const std::string& path) {
  KnownModel model{facts.geometry, facts.layers, "manifest " + path, facts.family};
  // A pack has layer keys; dense layers, which have none, come before the sparse ones.
  if (facts.tier) {
    const std::uint64_t all = facts.geometry.layers + facts.geometry.drafts;
    const std::uint64_t dense = all - std::min<std::uint64_t>(all, facts.layers.size());
    for (std::uint64_t& layer : model.layers) layer += dense;
  }
  return model;
}

KnownModel with_drafts(KnownModel model, std::uint64_t drafts) {
  std::erase_if(model.layers, [&](std::uint64_t layer) { return layer >= model.geometry.layers; });
  for (std::uint64_t draft = 0; draft < drafts; ++draft)
    model.layers.push_back(model.geometry.layers + draft);
  model.geometry.drafts = drafts;
  return model;
}

KnownModel model_of_profile(const Profile& profile) {
  if (!profile.geometry)
    throw Error(ErrorCode::usage, profile.name,
                "this profile does not say the model's geometry; give --config");
  KnownModel model{*profile.geometry, profile.sparse_layers(), "profile " + profile.name};
  if (profile.families.size() == 1) model.family = family_named(profile.families.front());
  return model;
}

KnownModel model_of_checkpoint(const Model& model, const std::string& directory) {
  KnownModel known{model.geometry, {}, "checkpoint " + directory};
  known.family = model.family;
  for (const SparseLayer& layer : model.layers) known.layers.push_back(layer.index);
  return known;
}

KnownModel model_of_config(Os& os, const std::string& path) {
  const bool directory = S_ISDIR(status(os, path).st_mode);
  const std::string file = directory ? join(path, kConfigName) : path;
  const Json config = read_python_json(os, file);
  KnownModel model{config_geometry(config, file), {}, "config " + file};
  if (const Json& step = config_value(config, "moe_layer_freq"); !step.is_null() && step != 1)
    throw Error(
        file, "has a \"moe_layer_freq\" other than 1; only the checkpoint can tell which layers are sparse");
  const std::uint64_t first = std::min(first_sparse_layer(config).value_or(0), model.geometry.layers);
  model.layers.resize(model.geometry.layers - first);
  std::iota(model.layers.begin(), model.layers.end(), first);
  return model;
}

}  // namespace planesmith
