// The pack of one tier of one rank (FORMAT.md section 7). It is filled in place; its sidecar lists a layer
// once it is durable.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/shared_writer.h"
#include "format/pack.h"
#include "manifest/manifest.h"
#include "sink/records.h"
#include "sink/sink.h"

namespace planesmith {

struct PackSinkSpec {
  std::string directory;
  format::PackSpec pack;
  std::uint64_t rank = 0, world = 1;
  format::Geometry geometry;
  std::vector<std::uint64_t> all_keys;  // layer keys of the model's sparse layers
  bool id_by_download = false;          // CacheFacts
  std::string source{};                 // fingerprint of the checkpoint; empty: not known
  std::optional<Family> family{};       // of the checkpoint's experts; none: not known
  // Whether layers that the sidecar lists but no record covers (another program wrote them, or the manifest
  // is lost) are compared with what is made; otherwise they are trusted.
  bool compare_unknown = false;
  std::shared_ptr<RecordCache> records = std::make_shared<RecordCache>();
};

class PackSink;

class PackLayer : public LayerOutput {
 public:
  // compare: the layer is listed; the first byte that differs from what is written takes it off the sidecar.
  PackLayer(PackSink& sink, std::uint64_t key, File pack, bool compare, std::vector<LockFile> lock);
  void write(std::uint64_t expert, format::Section section, std::uint64_t offset, ConstBytes bytes) override;
  void finish(std::uint64_t expert, format::Section section, const Xxh3& digest) override;
  // Replaces write() and finish() for a section: shares the blocks of a file that holds it. `digest`: of the
  // section. False, with nothing done: the file system cannot share.
  bool share(std::uint64_t expert, format::Section section, const File& from, std::uint64_t offset,
             const Xxh3& digest);
  void commit() override;
  // Whether the layer is still listed: what is written must be verified before.
  bool compares() const { return compare_; }

 private:
  struct Place {
    std::uint64_t offset;  // in the pack
    std::size_t number;    // among all sections of the layer
  };
  Place place(std::uint64_t expert, format::Section section) const;
  void unlist();  // on the first difference; from then on everything is written
  PackSink& sink_;
  const std::uint64_t key_;
  File pack_;
  std::atomic<bool> compare_;
  const bool compared_;
  std::mutex unlisting_;
  std::vector<LockFile> lock_;
  std::vector<Xxh3> digests_;  // experts x sections of the slot
  std::vector<SharedWriter::Range> ranges_;
  std::optional<SharedWriter> writer_;
};

class PackSink : public Sink {
 public:
  PackSink(const Context& context, PackSinkSpec spec, Trust trust);

  std::string describe() const override { return pack_path(); }
  std::uint64_t rank() const override { return spec_.rank; }
  std::size_t open_files() const override { return 4; }  // pack, lock, two directories
  void refuse_other_source() override { records_.refuse_other_source(); }
  void prepare() override;
  SectionSet missing(const SparseLayer& layer) override;
  std::uint64_t space_needed(const std::vector<const SparseLayer*>& layers, std::size_t at_once) override;
  std::unique_ptr<LayerOutput> open_layer(const SparseLayer& layer, const SectionSet& sections) override;
  std::unique_ptr<PackLayer> open_pack_layer(std::uint64_t layer_key);  // null as open_layer()
  Standing standing(const std::vector<const SparseLayer*>& layers) override;
  bool seal() override;
  bool has(std::uint64_t layer_key) const { return finished(layer_key, Trust::record); }

  const PackSinkSpec& spec() const { return spec_; }
  const format::RankShape& shape() const { return shape_; }

 private:
  friend class PackLayer;
  std::string pack_path() const { return join(dir_.path(), pack_name()); }
  std::string pack_name() const { return format::pack_file(stem_); }
  std::string sidecar_name() const { return format::sidecar_file(stem_); }
  File engine_lock() const;  // waits for it
  bool has_sidecar() const;
  std::vector<std::uint64_t> listed() const;  // layer keys; Errors: the sidecar is damaged or of another pack
  // Keys of the layers whose content is what a record says, for a sidecar that is lost or damaged.
  std::vector<std::uint64_t> proven() const;
  void repair_sidecar();                             // under the engine's lock
  bool compares() const;                             // whether layers without a record are compared
  bool comparable(std::uint64_t key) const;          // no record covers it, so it is compared if listed
  void list(std::uint64_t key, bool present) const;  // read-modify-write under the engine's lock
  bool finished(std::uint64_t key, Trust trust) const;
  Record record_of(std::vector<std::uint64_t> keys, std::vector<Xxh3> digests) const;
  Record read_back(std::uint64_t key) const;  // reads a layer that another program wrote

  const Context& context_;
  const PackSinkSpec spec_;
  const Trust trust_;
  const format::RankShape shape_;
  const std::vector<format::Section> sections_;
  const std::string stem_;  // name without suffix
  const OutputDir dir_;
  const Records records_;
  // This run's threads wait for it, not for the engine's lock with its pauses.
  mutable std::mutex listing_;
};

}  // namespace planesmith
