#include "hub/archive_record.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/paths.h"
#include "base/user_cache.h"

namespace planesmith::hub {
namespace {

constexpr std::string_view kGroup = "archives";

// The stamp of a regular file; null if it is missing.
Json stamp_of(Os& os, const std::string& path) {
  struct stat there {};
  return os.lstat(path.c_str(), &there) == 0 && S_ISREG(there.st_mode) ? file_stamp(there) : Json();
}

}  // namespace

ArchiveRecord::ArchiveRecord(const RemoteSet& set, const chunks::UnpackOptions& options,
                             const Context& context)
    : out_(options.out), context_(context) {
  Json parts = Json::array();
  for (const RemoteFile& part : set.parts) {
    if (part.sha256.empty()) return;
    parts.push_back({part.size, part.sha256});
  }
  try {
    key_ = compact(Json{{"out", resolved(context.os, out_)},
                        {"parts", std::move(parts)},
                        {"include", options.include},
                        {"exclude", options.exclude}});
  } catch (const Error&) {  // names that are not UTF-8 cannot be in JSON: nothing is remembered
  }
}

std::optional<chunks::UnpackResult> ArchiveRecord::find() const {
  if (key_.empty()) return {};
  const Json record = recall(context_.os, kGroup, key_);
  if (!record.is_object() || record.empty()) return {};
  chunks::UnpackResult unpacked;
  for (const auto& [path, stamp] : record.items()) {
    if (stamp != stamp_of(context_.os, join(out_, path))) return {};
    unpacked.paths.push_back(path);
    unpacked.bytes += stamp.at("size").get<std::uint64_t>();
  }
  unpacked.files = unpacked.kept = unpacked.paths.size();
  return unpacked;
}

void ArchiveRecord::write(const chunks::UnpackResult& unpacked) const {
  if (key_.empty()) return;
  Json record = Json::object();
  for (const std::string& path : unpacked.paths) {
    const Json stamp = stamp_of(context_.os, join(out_, path));
    if (stamp.is_null()) return;
    record[path] = stamp;
  }
  try {
    remember(context_.os, kGroup, key_, record);
  } catch (const std::exception&) {  // a name that is not UTF-8
  }
}

}  // namespace planesmith::hub
