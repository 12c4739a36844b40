#include "sink/record_cache.h"

#include "base/file.h"
#include "base/file_status.h"
#include "base/os_call.h"

namespace planesmith {
namespace {

// Compares ctime, too: parsing once more than needed does no harm.
bool same_status(const struct stat& a, const struct stat& b) {
  return same_file(a, b) && unchanged(a, b) && a.st_ctim.tv_sec == b.st_ctim.tv_sec &&
         a.st_ctim.tv_nsec == b.st_ctim.tv_nsec;
}

}  // namespace

std::shared_ptr<const Record> RecordCache::read(const Dir& dir, const std::string& name, std::uint64_t most,
                                                const std::function<Record(const std::string& text)>& parse) {
  const File file = dir.open_read(name);
  const struct stat now = file.status();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto at = kept_.find(file.path());
    if (at != kept_.end() && same_status(at->second.status, now)) return at->second.get();
  }
  const std::string text = text_of(file, most);
  Kept kept{now, nullptr, std::nullopt};
  try {
    kept.record = std::make_shared<const Record>(parse(text));
  } catch (const Error& error) {
    kept.refused = error;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  return kept_.insert_or_assign(file.path(), std::move(kept)).first->second.get();
}

void RecordCache::drop(const std::string& path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  kept_.erase(path);
}

}  // namespace planesmith
