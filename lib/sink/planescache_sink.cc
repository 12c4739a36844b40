#include "sink/planescache_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.h"
#include "base/file_status.h"
#include "base/shared_writer.h"
#include "base/size.h"
#include "base/space.h"
#include "base/temporary.h"
#include "base/text.h"
#include "base/user_cache.h"
#include "base/version.h"
#include "sink/holds.h"
#include "sink/output_dir.h"
#include "sink/records.h"

namespace planesmith {
namespace {

using format::Part;
using format::Section;

// Whether the file is what its record says. Trust::record compares size, inode and mtime with those when it
// was written, or size alone where only the manifest covers the file; ctime is ignored, since another hard
// link changes it. Trust::content also reads a file that this does not settle.
bool sound(const Context& context, const Dir& dir, const Record& record, const FileEntry& entry,
           Trust trust) {
  const std::optional<struct stat> there = dir.look(entry.path);
  if (!there || !S_ISREG(there->st_mode) || static_cast<std::uint64_t>(there->st_size) != entry.size)
    return false;
  if (trust == Trust::record && (record.stamps.is_null() ||
                                 same_but_ctime(record.stamps.value(entry.path, Json()), file_stamp(*there))))
    return true;
  const File file = dir.open_read(entry.path);
  std::vector<std::uint8_t> buffer;
  const std::vector<BlockRange> ranges = block_ranges(record.manifest, entry);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    context.check_stop();
    buffer.resize(ranges[i].size);
    file.read(buffer, ranges[i].offset);
    if (Xxh3::of(buffer) != entry.blocks[i]) return false;
  }
  return true;
}

constexpr std::uint64_t kMostMeta = 1 << 20, kCopyBytes = 256 * kKiB;

class CacheLayer : public LayerOutput {
 public:
  // compare: for each part, whether an existing file is compared and kept if it is the same.
  CacheLayer(const Context& context, const Records& records, Record record, Dir dir, std::uint64_t layer,
             const std::vector<Part>& parts, const std::vector<bool>& compare, const format::RankShape& shape,
             std::vector<LockFile> lock)
      : context_(context),
        records_(records),
        record_(std::move(record)),
        dir_(std::move(dir)),
        layer_(layer),
        lock_(std::move(lock)) {
    try {
      for (std::size_t i = 0; i < parts.size(); ++i) {
        Output& output = *outputs_.emplace_back(std::make_unique<Output>());
        output.section = parts[i].section;
        output.name = format::part_file(layer, parts[i].name);
        output.section_bytes = format::section_bytes(parts[i].section, shape);
        output.digests.resize(record_.manifest.facts->geometry.experts);
        if (compare[i])
          output.stored = dir_.open_read(output.name);
        else
          start(output, dir_.create_instead(temporary_name(output.name)));
      }
    } catch (...) {
      discard();
      throw;
    }
  }

  ~CacheLayer() override {
    if (!committed_) discard();
  }

  void write(std::uint64_t expert, Section section, std::uint64_t offset, ConstBytes bytes) override {
    Output& output = output_of(section);
    const std::uint64_t at = expert * output.section_bytes + offset;
    if (!output.started.load(std::memory_order_acquire)) {
      if (holds(*output.stored, at, bytes)) return;
      copy_stored(output);
    }
    output.writer->write(*output.file, output.ranges[expert], bytes, at);
  }

  void finish(std::uint64_t expert, Section section, const Xxh3& digest) override {
    Output& output = output_of(section);
    // Writeback starts at once, and commit() drops the written pages from the page cache. Measured on a disk
    // of 1.3 GB/s (ext4, two threads, sections of 4 MiB): 1.3 GB/s; with nothing but the sync at the end 0.2
    // (the kernel starts writing too late); with a window of pages that are waited for and dropped 0.8; with
    // O_DIRECT, which needs aligned sections and a file system that supports it, 1.0 to 1.3.
    if (output.started.load(std::memory_order_acquire)) {
      output.writer->finish(output.ranges[expert]);
      output.file->start_writeback(expert * output.section_bytes, output.section_bytes);
    }
    output.digests[expert] = digest;
  }

  void commit() override {
    std::vector<Output*> made;
    for (const std::unique_ptr<Output>& output : outputs_) {
      output->writer.reset();
      (output->started ? output->file : output->stored)->sync();
      if (output->started) made.push_back(output.get());
    }
    for (Output* output : made) output->file->drop_cache(0, 0);
    for (const Output* output : made)
      if (!dir_.leads_to(temporary_name(output->name), *output->file))
        throw Error(output->file->path(), "was exchanged by another process while it was written");
    // Old parts are removed first: the engine would accept a mixture of old and new parts.
    bool replaced = false;
    for (const Output* output : made) replaced |= dir_.unlink(output->name);
    if (replaced) dir_.sync();
    for (Output* output : made) {
      output->file->close();
      dir_.rename(temporary_name(output->name), output->name);
    }
    dir_.sync();
    committed_ = true;
    for (const std::unique_ptr<Output>& output : outputs_) {
      if (output->stored && output->started)
        context_.progress.say(fmt::format("{} differed from what its source gives; it was written again",
                                          dir_.path_of(output->name)));
      FileEntry entry;
      entry.path = output->name;
      entry.size = output->section_bytes * output->digests.size();
      entry.xxh3 = combine(output->digests);
      entry.blocks = std::move(output->digests);
      if (record_.stamps.is_object()) record_.stamps[entry.path] = file_stamp(dir_.status(entry.path));
      record_.manifest.files.push_back(std::move(entry));
    }
    std::vector<FileEntry>& files = record_.manifest.files;
    std::sort(files.begin(), files.end(),
              [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
    records_.put(layer_, record_);
  }

 private:
  struct Output {
    Section section{};
    std::string name;
    std::uint64_t section_bytes = 0;
    std::optional<File> stored;  // the existing part, for comparison
    std::optional<File> file;    // the new part, once it is `started`
    std::atomic<bool> started{false};
    std::mutex starting;
    std::optional<SharedWriter> writer;  // into `file`
    std::vector<SharedWriter::Range> ranges;
    std::vector<Xxh3> digests;
  };

  // Removes the new parts that have no final name.
  void discard() const {
    for (const std::unique_ptr<Output>& output : outputs_) {
      try {
        if (output->file) dir_.unlink(temporary_name(output->name));
      } catch (const Error&) {
      }
    }
  }

  Output& output_of(Section section) {
    for (const std::unique_ptr<Output>& output : outputs_)
      if (output->section == section) return *output;
    throw Error(dir_.path(), fmt::format("{} of layer {} is not being written", name(section), layer_));
  }

  void start(Output& output, File file) const {
    output.file.emplace(std::move(file));
    const std::uint64_t size = output.section_bytes * output.digests.size();
    output.file->truncate(size);
    output.ranges.resize(output.digests.size());
    output.writer.emplace(context_, *output.file, 0, size, record_.manifest.facts->world);
    output.started.store(true, std::memory_order_release);
  }

  // Called for the first byte that differs. Starts a new part with a copy of the existing one; from then on
  // everything is written to it.
  void copy_stored(Output& output) {
    const std::lock_guard<std::mutex> lock(output.starting);
    if (output.started) return;
    File file = dir_.create_instead(temporary_name(output.name));
    std::vector<std::uint8_t> buffer(kCopyBytes);
    for (std::uint64_t at = 0, size = output.stored->size(); at < size;) {
      const Bytes piece = Bytes(buffer).first(std::min<std::uint64_t>(kCopyBytes, size - at));
      output.stored->read(piece, at);
      file.write(piece, at);
      at += piece.size();
    }
    start(output, std::move(file));
  }

  const Context& context_;
  const Records& records_;
  Record record_;
  const Dir dir_;
  const std::uint64_t layer_;
  std::vector<LockFile> lock_;
  std::vector<std::unique_ptr<Output>> outputs_;
  bool committed_ = false;
};

class PlanesCacheSink : public Sink {
 public:
  PlanesCacheSink(const Context& context, PlanesCacheSpec spec, Trust trust)
      : context_(context),
        spec_(std::move(spec)),
        trust_(trust),
        shape_(format::rank_shape(spec_.geometry, spec_.meta.world)),
        dir_(context.os, spec_.root, format::cache_directory(spec_.meta)),
        records_(context, dir_, std::string(format::kCacheRecords), std::string(format::kManifestName),
                 spec_.source, spec_.records) {}

  std::string describe() const override { return dir_.path(); }
  std::uint64_t rank() const override { return spec_.meta.rank; }

  std::size_t open_files() const override {
    return format::cache_parts(spec_.fp4).size() + 3;  // parts, lock, two directories
  }
  void refuse_other_source() override { records_.refuse_other_source(); }

  void prepare() override {
    write_meta(dir_.make());
    records_.claim();
  }

  SectionSet missing(const SparseLayer& layer) override { return missing(layer.index, trust_); }

  std::uint64_t space_needed(const std::vector<const SparseLayer*>& layers, std::size_t at_once) override {
    // A rebuilt layer needs space while its old files still exist and frees it when they are removed, so the
    // largest rebuilt ones count in addition, as many as are written side by side. Leftovers of a killed run
    // are removed before the layer is written.
    std::uint64_t bytes = 0;
    std::vector<std::uint64_t> replaced;
    for (const SparseLayer* layer : layers) {
      const bool unrecorded = !records_.find(layer->index);
      const SectionSet sections = missing(layer->index, trust_ == Trust::nothing ? trust_ : Trust::record);
      std::uint64_t needed = 0, freed = 0, left_over = 0;
      for (const Part& part : format::cache_parts(spec_.fp4)) {
        if (!sections[static_cast<std::size_t>(part.section)]) continue;
        const std::string name = format::part_file(layer->index, part.name);
        if (unrecorded && comparable(layer->index, part)) continue;  // it is compared and most likely kept
        needed += spec_.geometry.experts * section_bytes(part.section, shape_);
        freed += on_disk(name);
        left_over += on_disk(temporary_name(name));
      }
      replaced.push_back(std::min(freed, needed));
      bytes += needed - std::min(needed, freed + left_over);
    }
    return bytes + sum_of_largest(std::move(replaced), at_once);
  }

  Standing standing(const std::vector<const SparseLayer*>& layers) override {
    Standing out;
    const std::vector<Part> parts = format::cache_parts(spec_.fp4);
    if (trust_ == Trust::nothing) return out;  // all layers are made, whatever is there
    records_.read_ahead(spec_.all_layers);
    for (const SparseLayer* layer : layers) {
      if (missing(layer->index, Trust::record) == SectionSet{})
        ++out.finished;
      else if (!records_.find(layer->index) && std::all_of(parts.begin(), parts.end(), [&](const Part& part) {
                 return comparable(layer->index, part);
               }))
        ++out.compared;
    }
    if (out.compared != 0) out.remark = records_.remark_compared(dir_.path(), out.compared);
    return out;
  }

  std::unique_ptr<LayerOutput> open_layer(const SparseLayer& layer, const SectionSet& sections) override {
    std::vector<LockFile> lock;
    if (!records_.try_lock(layer.index, lock)) return nullptr;
    if (trust_ == Trust::record && missing(layer.index, trust_) == SectionSet{}) return nullptr;
    const Dir& dir = dir_.get();
    for (const Part& part : format::cache_parts(format::Fp4Tier::nibble))     // all part names
      dir.unlink(temporary_name(format::part_file(layer.index, part.name)));  // left by a killed run
    std::vector<Part> to_make;
    for (const Part& part : format::cache_parts(spec_.fp4))
      if (sections[static_cast<std::size_t>(part.section)]) to_make.push_back(part);
    // No record may cover parts that are about to be replaced; parts that stay keep theirs.
    Record record{{ManifestKind::planescache, version(), facts(layer.index), {}}, Json::object()};
    std::vector<bool> compare(to_make.size(), false);
    const std::shared_ptr<const Record> old = records_.find(layer.index);
    if (!old)
      std::transform(to_make.begin(), to_make.end(), compare.begin(),
                     [&](const Part& part) { return comparable(layer.index, part); });
    if (old) {
      records_.forget(layer.index);
      if (!sections[static_cast<std::size_t>(Section::planes13)]) {
        record = *old;
        keep_tier(record.manifest, format::Fp4Tier::none);
        records_.put(layer.index, record);
        record.manifest.facts->fp4 = spec_.fp4;
      }
    }
    return std::make_unique<CacheLayer>(context_, records_, std::move(record), dir, layer.index, to_make,
                                        compare, shape_, std::move(lock));
  }

  bool seal() override {
    records_.read_ahead(spec_.all_layers);
    for (const std::uint64_t layer : spec_.all_layers) {
      const SectionSet left = missing(layer, Trust::record);
      if (std::find(left.begin(), left.end(), true) != left.end()) return false;
    }
    // Drafter layers that an earlier build made stay in the manifest, even if this build takes none.
    std::vector<std::uint64_t> layers = spec_.all_layers;
    const format::Geometry& geometry = spec_.geometry;
    for (std::uint64_t draft = geometry.drafts; draft < format::kMostDrafts; ++draft) {
      if (!records_.find(geometry.layers + draft)) break;
      layers.push_back(geometry.layers + draft);
    }
    return records_.seal(layers);
  }

 private:
  void write_meta(const Dir& dir) {
    const Records::Turn turn = records_.lock();
    const std::string text = format::meta_json(spec_.meta), name(format::kMetaName);
    const std::optional<struct stat> there = dir.look(name);
    if (!there || S_ISLNK(there->st_mode)) {
      dir.write_atomically(name, text);
      return;
    }
    // The directory's name contains a digest of meta.json, so another text is damage, not another cache.
    std::string problem;
    try {
      if (dir.read_text(name, kMostMeta) == text) return;
      problem = "does not match the directory's name";
    } catch (const Error& error) {
      problem = error.reason();
    }
    if (trust_ == Trust::record)
      throw Error(dir.path_of(name),
                  fmt::format("{}; --recheck writes it again, and so does verify-ckpt-id repair {}", problem,
                              shell_quoted(spec_.root)));
    dir.write_atomically(name, text);
    context_.progress.say(fmt::format("{} {}; it was written again", dir.path_of(name), problem));
  }

  // For a layer without a record: whether the part exists with the right size and can be compared.
  bool comparable(std::uint64_t layer, const Part& part) const {
    const Dir* const dir = dir_.find();
    if (trust_ == Trust::nothing || dir == nullptr) return false;
    const std::optional<struct stat> there = dir->look(format::part_file(layer, part.name));
    return there && S_ISREG(there->st_mode) &&
           static_cast<std::uint64_t>(there->st_size) ==
               spec_.geometry.experts * format::section_bytes(part.section, shape_);
  }

  // The sections to make: all, only the FP4 ones, or none.
  SectionSet missing(std::uint64_t layer, Trust trust) const {
    const std::shared_ptr<const Record> record = trust == Trust::nothing ? nullptr : records_.find(layer);
    const auto lacks = [&](const Part& part) { return !has(record.get(), layer, part, trust); };
    const std::vector<Part> all = format::cache_parts(spec_.fp4),
                            planes = format::cache_parts(format::Fp4Tier::none);
    const bool lacks_planes = std::any_of(planes.begin(), planes.end(), lacks);
    const bool lacks_some = lacks_planes || std::any_of(all.begin(), all.end(), lacks);
    SectionSet out{};
    for (std::size_t i = 0; i < all.size(); ++i)
      out[static_cast<std::size_t>(all[i].section)] = lacks_planes || (lacks_some && i >= planes.size());
    return out;
  }

  // record: of the layer; null: none.
  bool has(const Record* record, std::uint64_t layer, const Part& part, Trust trust) const {
    const Dir* const dir = dir_.find();
    if (record == nullptr || dir == nullptr) return false;
    const std::string file = format::part_file(layer, part.name);
    for (const FileEntry& entry : record->manifest.files)
      if (entry.path == file) return sound(context_, *dir, *record, entry, trust);
    return false;
  }

  std::uint64_t on_disk(const std::string& name) const {
    const Dir* const dir = dir_.find();
    const std::optional<struct stat> there = dir == nullptr ? std::nullopt : dir->look(name);
    // A file with another hard link is not freed when this name is removed.
    return there && S_ISREG(there->st_mode) && there->st_nlink == 1 ? allocated_bytes(*there) : 0;
  }

  CacheFacts facts(std::uint64_t layer) const {
    CacheFacts out;
    out.ckpt_id = spec_.meta.ckpt_id;
    out.world = spec_.meta.world;
    out.rank = spec_.meta.rank;
    out.zero_mode = spec_.meta.zero_mode;
    out.geometry = spec_.geometry;
    out.layers = {layer};
    out.fp4 = spec_.fp4;
    out.id_by_download = spec_.id_by_download;
    out.source = spec_.source;
    if (!spec_.source.empty()) out.family = spec_.family;  // source and family go together
    return out;
  }

  const Context& context_;
  const PlanesCacheSpec spec_;
  const Trust trust_;
  const format::RankShape shape_;
  const OutputDir dir_;
  const Records records_;
};

}  // namespace

std::unique_ptr<Sink> make_planescache_sink(const Context& context, PlanesCacheSpec spec, Trust trust) {
  return std::make_unique<PlanesCacheSink>(context, std::move(spec), trust);
}

}  // namespace planesmith
