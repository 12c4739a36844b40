#include "codebook/figures.h"

#include <algorithm>

namespace planesmith {
namespace {

nlohmann::ordered_json stats_of(const FileFigures& figures) {
  nlohmann::ordered_json codebooks = nlohmann::ordered_json::object();
  for (const auto& [levels, groups] : figures.codebooks) codebooks[levels] = groups;
  return {{"n_expert_tensors", figures.tensors},
          {"rms_err", figures.deviation.rms_error()},
          {"rel_rms", figures.deviation.relative_rms()},
          {"bias", figures.deviation.bias()},
          {"codebooks", codebooks}};
}

}  // namespace

void FileFigures::count_codebook(const std::string& levels, std::uint64_t groups) {
  const auto at =
      std::find_if(codebooks.begin(), codebooks.end(), [&](const auto& c) { return c.first == levels; });
  if (at == codebooks.end())
    codebooks.emplace_back(levels, groups);
  else
    at->second += groups;
}

Json to_json(const FileFigures& figures) {
  const Deviation& d = figures.deviation;
  return {{"name", figures.name},
          {"tensors", figures.tensors},
          {"elements", d.elements},
          {"error", d.error},
          {"squared_error", d.squared_error},
          {"squared_value", d.squared_value},
          {"codebooks", figures.codebooks}};
}

FileFigures parse_figures(const Json& json) {
  FileFigures figures;
  json.at("name").get_to(figures.name);
  json.at("tensors").get_to(figures.tensors);
  json.at("elements").get_to(figures.deviation.elements);
  json.at("error").get_to(figures.deviation.error);
  json.at("squared_error").get_to(figures.deviation.squared_error);
  json.at("squared_value").get_to(figures.deviation.squared_value);
  json.at("codebooks").get_to(figures.codebooks);
  return figures;
}

nlohmann::ordered_json stats_json(Granularity granularity, int levels,
                                  const std::vector<FileFigures>& files) {
  FileFigures total;
  nlohmann::ordered_json by_file = nlohmann::ordered_json::object();
  for (const FileFigures& file : files) {
    nlohmann::ordered_json entry = {{"file", file.name}};
    entry.update(stats_of(file));
    by_file[file.name] = entry;
    total.tensors += file.tensors;
    total.deviation += file.deviation;
    for (const auto& [text, groups] : file.codebooks) total.count_codebook(text, groups);
  }
  return {
      {"granularity", name(granularity)}, {"levels", levels}, {"files", by_file}, {"total", stats_of(total)}};
}

}  // namespace planesmith
