// Records and manifests as they were last read, so that the phases of a run parse each of them once.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/dir.h"
#include "base/error.h"
#include "base/json.h"
#include "manifest/manifest.h"

namespace planesmith {

struct Record {
  Manifest manifest;
  // By file name: file_stamp() when it was written. Null: the record comes from the manifest, which has none.
  Json stamps = Json::object();
};

// All member functions may be called from any thread.
class RecordCache {
 public:
  // The record in a file of at most `most` bytes. Opens the file each time, and parses it only if its status
  // is not the one that it was read with. Errors: those of opening, reading and `parse`; those of
  // `parse` are kept, too.
  std::shared_ptr<const Record> read(const Dir& dir, const std::string& name, std::uint64_t most,
                                     const std::function<Record(const std::string& text)>& parse);
  // To be called when this process replaces or removes the file: a later file could get the same status.
  void drop(const std::string& path);

 private:
  struct Kept {
    struct stat status {};
    std::shared_ptr<const Record> record;  // null: refused
    std::optional<Error> refused;          // why it cannot be parsed
    const std::shared_ptr<const Record>& get() const {
      if (refused) throw *refused;
      return record;
    }
  };
  std::mutex mutex_;
  std::map<std::string, Kept> kept_;  // by path
};

}  // namespace planesmith
