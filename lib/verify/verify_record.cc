#include "verify/verify_record.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/file.h"
#include "base/paths.h"
#include "base/user_cache.h"

namespace planesmith {
namespace {

constexpr std::string_view kGroup = "verify";
constexpr auto kSaveInterval = std::chrono::seconds(5);

bool lies_below(const std::string& directory, const std::string& root) {
  // The directory may not exist yet; then its nearest existing ancestor decides.
  std::string there = directory;
  while (there != "/" && there != ".") {
    try {
      return is_inside(real_path(there), real_path(root));
    } catch (const Error&) {
      there = parent_of(there);
    }
  }
  return false;
}

}  // namespace

VerifyRecord::VerifyRecord(const Context& context, const std::string& root, std::string key)
    : context_(context), key_(std::move(key)), next_save_(std::chrono::steady_clock::now() + kSaveInterval) {
  kept_ = !user_cache_directory().empty() && !lies_below(user_cache_directory(), root);
  if (!kept_) return;
  const Json found = recall(context.os, kGroup, key_);
  if (!found.is_object()) return;
  for (const auto& [path, entry] : found.items()) {
    try {
      files_[path] = {entry.at("file"), entry.at("good").get<Runs>()};
    } catch (const Json::exception&) {  // not written by us
      files_.erase(path);
    }
  }
}

VerifyRecord::Runs VerifyRecord::good(const std::string& path, const struct stat& status) const {
  const auto found = files_.find(path);
  return found != files_.end() && found->second.file == file_stamp(status) ? found->second.good : Runs();
}

void VerifyRecord::add(const std::string& path, const struct stat& status, std::size_t first,
                       std::size_t last) {
  if (!kept_) return;
  Entry& entry = files_[path];
  if (Json now = file_stamp(status); entry.file != now) entry = {std::move(now), {}};
  Runs& runs = entry.good;
  auto at = runs.insert(std::upper_bound(runs.begin(), runs.end(), std::pair(first, last)), {first, last});
  if (at != runs.begin() && std::prev(at)->second >= first) {
    std::prev(at)->second = std::max(std::prev(at)->second, last);
    at = std::prev(runs.erase(at));
  }
  if (const auto next = std::next(at); next != runs.end() && next->first <= at->second) {
    at->second = std::max(at->second, next->second);
    runs.erase(next);
  }
  if (std::chrono::steady_clock::now() >= next_save_) save();
}

void VerifyRecord::save() {
  Json out = Json::object();
  for (const auto& [path, entry] : files_) out[path] = {{"file", entry.file}, {"good", entry.good}};
  if (kept_ && !out.empty()) remember(context_.os, kGroup, key_, out);
  next_save_ = std::chrono::steady_clock::now() + kSaveInterval;
}

void VerifyRecord::drop() {
  if (kept_) forget(context_.os, kGroup, key_);
}

}  // namespace planesmith
