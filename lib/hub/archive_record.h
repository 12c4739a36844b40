// Remembers which files an archive without a manifest was unpacked to, so that it is not fetched again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "chunks/unpack.h"
#include "hub/remote_set.h"

namespace planesmith::hub {

class ArchiveRecord {
 public:
  // The record of these parts, unpacked with these options.
  ArchiveRecord(const RemoteSet& set, const chunks::UnpackOptions& options, const Context& context);

  // The result of the earlier run if all its files are still there and unchanged; else none.
  std::optional<chunks::UnpackResult> find() const;
  void write(const chunks::UnpackResult& unpacked) const;

 private:
  const std::string out_;
  const Context& context_;
  std::string key_;  // empty: the parts have no digests to identify them
};

}  // namespace planesmith::hub
