#include "verify/verify_record.h"

#include <algorithm>

#include "base/error.h"
#include "base/file.h"
#include "base/user_cache.h"

namespace planesmith {
namespace {

constexpr std::string_view kGroup = "verify";
constexpr auto kSaveInterval = std::chrono::seconds(5);

bool lies_below(const std::string& folder, const std::string& root) {
  // The folder may not be there yet: its nearest ancestor that is decides.
  std::string there = folder;
  while (there != "/" && there != ".") {
    try {
      const std::string real = real_path(there) + "/";
      return real.starts_with(real_path(root) + "/");
    } catch (const Error&) {
      there = parent_of(there);
    }
  }
  return false;
}

}  // namespace

VerifyRecord::VerifyRecord(const Context& context, const std::string& root, std::string key)
    : context_(context), key_(std::move(key)), next_save_(std::chrono::steady_clock::now() + kSaveInterval) {
  kept_ = !user_cache_folder().empty() && !lies_below(user_cache_folder(), root);
  if (!kept_) return;
  if (Json found = recall(context.os, kGroup, key_); found.is_object()) files_ = std::move(found);
}

VerifyRecord::Runs VerifyRecord::good(const std::string& path, const struct stat& status) const {
  Runs runs;
  try {
    const auto found = files_.find(path);
    if (found != files_.end() && found->at("file") == file_stamp(status))
      runs = found->at("good").get<Runs>();
  } catch (const Json::exception&) {  // not written by us
    runs.clear();
  }
  return runs;
}

void VerifyRecord::add(const std::string& path, const struct stat& status, std::size_t first,
                       std::size_t last) {
  if (!kept_) return;
  Runs runs = good(path, status);
  runs.insert(std::upper_bound(runs.begin(), runs.end(), std::pair(first, last)), {first, last});
  Runs merged;
  for (const auto& run : runs) {
    if (!merged.empty() && run.first <= merged.back().second)
      merged.back().second = std::max(merged.back().second, run.second);
    else
      merged.push_back(run);
  }
  files_[path] = {{"file", file_stamp(status)}, {"good", merged}};
  if (std::chrono::steady_clock::now() >= next_save_) save();
}

void VerifyRecord::save() {
  if (kept_ && !files_.empty()) remember(context_.os, kGroup, key_, files_);
  next_save_ = std::chrono::steady_clock::now() + kSaveInterval;
}

void VerifyRecord::drop() {
  if (kept_) forget(context_.os, kGroup, key_);
}

}  // namespace planesmith
