#include "verify/verified_lately.h"

#include <fmt/format.h>
#include <time.h>

#include "base/file.h"
#include "base/hash.h"
#include "base/user_cache.h"

namespace planesmith {
namespace {

constexpr std::string_view kVerified = "verified";

}  // namespace

VerifiedLately::VerifiedLately(Os& os, const std::string& root, std::string_view manifest)
    : os_(os),
      key_(fmt::format("{}\n{}", real_path(root), sha256_hex(manifest))),
      files_(recall(os, kVerified, key_)) {
  if (!files_.is_object()) files_ = Json::object();
}

bool VerifiedLately::holds(const std::string& path, const struct stat& status,
                           std::chrono::seconds since) const {
  const auto found = files_.find(path);
  try {
    return found != files_.end() && found->at("file") == file_stamp(status) &&
           found->at("time").get<std::int64_t>() + since.count() >= time(nullptr);
  } catch (const Json::exception&) {  // not written by us
    return false;
  }
}

void VerifiedLately::note(const std::string& path, const struct stat& status, bool good) {
  if (good)
    files_[path] = {{"file", file_stamp(status)}, {"time", time(nullptr)}};
  else
    files_.erase(path);
}

void VerifiedLately::save() const {
  if (!files_.empty()) remember(os_, kVerified, key_, files_);
}

}  // namespace planesmith
