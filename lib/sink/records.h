// What is known about the finished layers of one artifact: a record per layer in a directory of our own,
// merged into the manifest when the set is complete. A record is a manifest of one layer. Also the locks that
// keep runs apart.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "base/lock_file.h"
#include "manifest/manifest.h"

namespace planesmith {

// In a planes cache's directory: the prefix of its records and locks.
inline constexpr std::string_view kCacheRecords = ".planesmith";

class Records {
 public:
  // prefix: path that records (<prefix>/layer<n>.json) and locks (<prefix>.layer<n>.lock, <prefix>.lock)
  // start with; its parent exists. Nothing under it is left after seal(). manifest_path: of the final
  // manifest.
  Records(const Context& context, std::string prefix, std::string manifest_path);

  // The layer's record, or else its share of the manifest. Unreadable ones count as absent.
  std::optional<Manifest> find(std::uint64_t layer) const;
  void put(std::uint64_t layer, const Manifest& record) const;
  // Before a layer is written over: neither record nor manifest may speak of it any more.
  void forget(std::uint64_t layer) const;

  // Locks one layer against other runs; false where one of them holds it. Waits for the lock on the whole
  // first, so that who holds that can be sure that no layer gets into anybody's hands.
  bool try_lock(std::uint64_t layer, std::vector<LockFile>& held) const;
  // Waits for the lock on the artifact as a whole. Not for use around the calls above, which take it
  // themselves.
  std::vector<LockFile> lock() const;

  // Makes the manifest out of the records of these layers and removes what was needed on the way. False where
  // one of them has none.
  bool seal(const std::vector<std::uint64_t>& layers) const;

 private:
  std::string record_path(std::uint64_t layer) const;
  std::string lock_path(std::uint64_t layer) const;
  std::shared_ptr<const Manifest> manifest() const;  // null: there is none that is sound
  const Context& context_;
  std::string prefix_, manifest_path_;

  // The manifest as last read: tens of thousands of digests are not parsed once per layer. Layers are asked
  // for from several threads.
  struct Kept {
    std::mutex mutex;
    std::shared_ptr<const Manifest> manifest;
    struct stat status {};  // of the file it was read from
  };
  mutable Kept kept_;
};

// The part of a manifest that speaks of one layer (index for a planes cache, key for a pack); none: it does
// not.
std::optional<Manifest> layer_of(const Manifest& manifest, std::uint64_t layer);
// The inverse: manifests of single layers of one artifact put together, ascending layers. Of a planes cache
// whose layers do not all have FP4 parts, those are left out.
Manifest merge(std::vector<Manifest> layers);
// Lowers a planes cache's manifest to the parts of this FP4 tier.
void keep_tier(Manifest& manifest, format::Fp4Tier tier);

}  // namespace planesmith
