// What an archive without a manifest was unpacked to: nothing but this record tells that it need not be
// fetched again.
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
  // Of these parts, unpacked with these options.
  ArchiveRecord(const RemoteSet& set, const chunks::UnpackOptions& options, const Context& context);

  // What was unpacked, where all of it is there still and was not touched since; else none.
  std::optional<chunks::UnpackResult> find() const;
  void write(const chunks::UnpackResult& unpacked) const;

 private:
  const std::string out_;
  const Context& context_;
  std::string key_;  // empty: the parts have no digests to tell them by
};

}  // namespace planesmith::hub
