// Input: a recipe of the engine (YAML), a quantization_config or a model profile. What is accepted can be
// used: asked for its words, its groups, its layers.
#include "base/error.h"
#include "base/json.h"
#include "checkpoint/recipe.h"
#include "manifest/profile.h"
#include "require.h"
#include "serve/recipe.h"

using namespace planesmith;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const Recipe recipe = parse_recipe(text, "r", "/cache");
    require(recipe.left_out.empty());  // the directory is known
    argument_value(recipe.arguments, {"--tensor-parallel-size", "-tp"});
  } catch (const Error& error) {
    require(error.path() == "r");
  }
  try {
    const QuantRecipe recipe = read_recipe(parse_python_json(text, "q"));
    recipe.title();
    recipe.group_of("model.layers.3.mlp.experts.0.gate_proj");
  } catch (const Error& error) {
    require(!std::string(error.what()).empty());
  }
  try {
    const Profile profile = parse_profile(text, "p");
    require(!profile.name.empty());
    if (profile.geometry) require(profile.sparse_layers().size() <= profile.geometry->layers);
  } catch (const Error& error) {
    require(error.path() == "p");
  }
  return 0;
}
