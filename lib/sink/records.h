// What is known about the finished layers of one artifact: a record per layer in a private directory of our
// own, merged into the manifest when the set is complete. A record is a manifest of one layer, with what the
// layer's files were when it was written. Also the locks that keep runs apart.
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
#include "base/json.h"
#include "base/lock_file.h"
#include "manifest/manifest.h"
#include "sink/output_dir.h"

namespace planesmith {

struct Record {
  Manifest manifest;
  Json stamps = Json::object();  // by file name: file_stamp() when it was written; null: from the manifest,
                                 // which has none
};

class Records {
 public:
  // In `dir`, by name: the directory of the records with its locks beside it (format/file_names.h), and the
  // final manifest. Nothing that starts with the prefix is left after seal(). The directory <prefix> is ours
  // alone: Error where it is not.
  // source: fingerprint of what this run makes layers of (FORMAT.md section 10); empty: not known.
  Records(const Context& context, const OutputDir& dir, std::string prefix, std::string manifest,
          std::string source);

  // Fingerprint of what the artifact is made of so far, by manifest, records or another run's claim; empty:
  // not known.
  std::string source() const;
  // Error (usage, "other-source", both named): it is made of something else than this run's source.
  void refuse_other_source() const;
  // The same, and from now on no run of another source gets in. The directory is there.
  void claim() const;

  // Why the manifest that is there cannot be used; empty: it can, or there is none.
  std::string manifest_problem() const;

  // The layer's record, or else its share of the manifest. Unreadable ones count as absent, and this is said.
  std::optional<Record> find(std::uint64_t layer) const;
  void put(std::uint64_t layer, const Record& record) const;
  // Before a layer is written over: neither record nor manifest may speak of it any more.
  void forget(std::uint64_t layer) const;

  // Locks one layer against other runs; false where one of them holds it. Waits for the lock on the whole
  // first: the one that holds that knows that no other run gets a layer.
  bool try_lock(std::uint64_t layer, std::vector<LockFile>& held) const;
  // Waits for the lock on the artifact as a whole. Not for use around the calls above, which take it
  // themselves.
  std::vector<LockFile> lock() const;

  // Makes the manifest out of the records of these layers and removes what was needed on the way. False where
  // one of them has none.
  bool seal(const std::vector<std::uint64_t>& layers) const;

 private:
  std::optional<Dir> directory() const;  // of the records; none: there are none
  std::optional<Record> read(const Dir& records, std::uint64_t layer) const;
  void write(const Dir& records, std::uint64_t layer, const Record& record) const;
  std::string claimed() const;  // what a run that has not finished makes it of; empty: nothing is claimed
  std::string recorded_source() const;
  bool in_work() const;                              // another run holds a layer
  std::shared_ptr<const Manifest> manifest() const;  // null: there is none that is sound
  void say_ignored(const std::string& path, const std::string& why) const;

  const Context& context_;
  const OutputDir& dir_;
  const std::string prefix_, manifest_, source_;

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
// whose layers do not all have FP4 parts, those are left out. Errors: layers of two sources.
Manifest merge(std::vector<Manifest> layers);
// Lowers a planes cache's manifest to the parts of this FP4 tier.
void keep_tier(Manifest& manifest, format::Fp4Tier tier);

}  // namespace planesmith
