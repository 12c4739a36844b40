// The records of one artifact's finished layers: one per layer in a private directory, merged into the
// manifest when the set is complete. A record is a manifest of one layer plus the state of the layer's files
// when it was written. Also the locks between runs.
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
#include "sink/output_dir.h"
#include "sink/record_cache.h"

namespace planesmith {

class Records {
 public:
  // Names in `dir`: `prefix` is the private directory of the records, with its locks beside it
  // (format/file_names.h), `manifest` the final manifest. seal() removes what starts with the prefix, except
  // records that know of FP4 parts which other layers still lack. Error: the directory belongs to another
  // user or others may write to it. source: fingerprint of this run's checkpoint (FORMAT.md section 10);
  // empty: not known. cache: shared by those who read the same records in this process.
  Records(const Context& context, const OutputDir& dir, std::string prefix, std::string manifest,
          std::string source, std::shared_ptr<RecordCache> cache = std::make_shared<RecordCache>());

  // Fingerprint of the checkpoint that the artifact was made from so far, by manifest, records or the claim
  // of a running build; empty: not known.
  std::string source() const;
  // Error (usage, "other-source", names both): the artifact was made from another checkpoint.
  void refuse_other_source() const;
  // The same, and keeps out runs of another checkpoint from now on. The directory must exist.
  void claim() const;

  // Message about layers whose files are there without a record; artifact: path of what holds them.
  std::string remark_compared(const std::string& artifact, std::uint64_t layers) const;

  // The layer's record, else its share of the manifest; null: neither. Unreadable files count as absent, with
  // a message.
  std::shared_ptr<const Record> find(std::uint64_t layer) const;
  // Reads the records of these layers with several threads, so that find() has them.
  void read_ahead(const std::vector<std::uint64_t>& layers) const;
  void put(std::uint64_t layer, const Record& record) const;
  // Removes the layer from records and manifest; call it before the layer is overwritten.
  void forget(std::uint64_t layer) const;

  // Locks one layer; false: another run holds it. First waits for the lock on the whole artifact, so its
  // holder knows that no other run gets a layer.
  bool try_lock(std::uint64_t layer, std::vector<LockFile>& held) const;
  // Waits for the lock on the whole artifact. Do not hold it around put(), forget(), claim() or try_lock(),
  // which take it themselves.
  struct Turn {
    std::unique_lock<std::mutex> thread;  // this run's threads wait for it, not for the file with its pauses
    std::vector<LockFile> process;        // released first
  };
  Turn lock() const;

  // Merges the records of these layers into the manifest and removes them. False: a layer has no record.
  bool seal(const std::vector<std::uint64_t>& layers) const;

 private:
  std::optional<Dir> directory() const;  // of the records; none: no such directory
  std::shared_ptr<const Record> read(const Dir& records, std::uint64_t layer) const;
  void write(const Dir& records, std::uint64_t layer, const Record& record) const;
  std::string claimed() const;  // source of an unfinished run; empty: none
  std::string recorded_source() const;
  std::string manifest_problem() const;  // why the manifest cannot be used; empty: it can, or there is none
  bool in_work() const;                  // whether another run holds a layer
  std::shared_ptr<const Record> manifest() const;  // without stamps; null: missing or damaged
  void unlink(const Dir& dir, const std::string& name) const;
  void say_ignored(const std::string& path, const std::string& why) const;

  const Context& context_;
  const OutputDir& dir_;
  const std::string prefix_, manifest_, source_;
  const std::shared_ptr<RecordCache> cache_;
  mutable std::mutex turn_;
  // Held while the manifest with its tens of thousands of digests is parsed, so that one thread does it.
  mutable std::mutex reading_;
};

// The share of one layer (index for a planes cache, key for a pack) in a manifest; none: the layer is not in
// it.
std::optional<Manifest> layer_of(const Manifest& manifest, std::uint64_t layer);
// The inverse: merges manifests of single layers of one artifact, in ascending order. If not all layers of a
// planes cache have FP4 parts, the FP4 parts are left out. Error: layers of two sources.
Manifest merge(std::vector<Manifest> layers);
// Reduces a planes cache's manifest to the parts of this FP4 tier.
void keep_tier(Manifest& manifest, format::Fp4Tier tier);

}  // namespace planesmith
