#include "hub/next_step.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "checkpoint/files.h"
#include "format/file_names.h"

namespace planesmith::hub {
namespace {

std::vector<std::string> entries(const std::string& path, const Context& context) {
  try {
    return list_dir(context.os, path);
  } catch (const Error&) {  // a file, or gone
    return {};
  }
}

}  // namespace

std::string next_step(const std::vector<std::string>& places, const Context& context) {
  std::string planescache, store, checkpoint;
  for (const std::string& place : places) {
    const std::vector<std::string> names = entries(place, context);
    const auto any = [&](auto matches) { return std::any_of(names.begin(), names.end(), matches); };
    if (planescache.empty() && any([](const std::string& name) { return name == format::kCacheLevel; }))
      planescache = place;
    if (store.empty() && any([](const std::string& name) { return format::is_pack_file(name); }))
      store = place;
    if (checkpoint.empty() && any([](const std::string& name) { return name == kConfigName; }))
      checkpoint = place;
  }
  if (!planescache.empty() || !store.empty())
    return "verify-ckpt-id check" +
           (planescache.empty() ? "" : " --planescache " + shell_quoted(planescache)) +
           (store.empty() ? "" : " --store " + shell_quoted(store));
  return checkpoint.empty() ? "" : "verify-ckpt-id audit " + shell_quoted(checkpoint);
}

}  // namespace planesmith::hub
