#include "sink/planescache_sink.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/version.h"
#include "sink/records.h"

namespace planesmith {
namespace {

using format::Part;
using format::Section;

std::string part_path(const std::string& directory, std::uint64_t layer, const Part& part) {
  return join(directory, format::part_file(layer, part.name));
}

// Whether the file is what its record says: by size, or by reading it.
bool sound(const Context& context, const std::string& directory, const Manifest& record,
           const FileEntry& entry, Trust trust) {
  const std::string path = join(directory, entry.path);
  if (!exists(context.os, path)) return false;
  const File file = File::open_read(context.os, path);
  if (file.size() != entry.size) return false;
  if (trust == Trust::record) return true;
  std::vector<std::uint8_t> buffer;
  const std::vector<BlockRange> ranges = block_ranges(record, entry);
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    context.check_stop();
    buffer.resize(ranges[i].size);
    file.read(buffer, ranges[i].offset);
    if (Xxh3::of(buffer) != entry.blocks[i]) return false;
  }
  return true;
}

class CacheLayer : public LayerOutput {
 public:
  CacheLayer(const Context& context, const Records& records, Manifest record, std::string directory,
             std::uint64_t layer, const std::vector<Part>& parts, const format::RankShape& shape,
             std::vector<LockFile> lock)
      : context_(context),
        records_(records),
        record_(std::move(record)),
        directory_(std::move(directory)),
        layer_(layer),
        lock_(std::move(lock)) {
    for (const Part& part : parts) {
      const std::string path = part_path(directory_, layer, part);
      outputs_.push_back({part, path, File::create(context_.os, path + ".tmp"),
                          format::section_bytes(part.section, shape),
                          std::vector<Xxh3>(record_.facts->geometry.experts)});
    }
  }

  ~CacheLayer() override {
    if (committed_) return;
    for (const Output& output : outputs_) context_.os.unlink(output.file.path().c_str());
  }

  void write(std::uint64_t expert, Section section, std::uint64_t offset, ConstBytes bytes) override {
    Output& output = output_of(section);
    output.file.write(bytes, expert * output.section_bytes + offset);
  }

  void finish(std::uint64_t expert, Section section, const Xxh3& digest) override {
    Output& output = output_of(section);
    // The disk starts at once, and commit() drops what is on it from the page cache. Measured on a disk that
    // takes 1.3 GB/s (ext4, two threads, sections of 4 MiB): 1.3 GB/s so, 0.2 with nothing but the sync at
    // the end (the system starts writing too late), 0.8 with a window of pages that are waited for and
    // dropped, 1.0 to 1.3 with O_DIRECT, which demands aligned sections and file systems that allow it.
    output.file.start_writeback(expert * output.section_bytes, output.section_bytes);
    output.digests[expert] = digest;
  }

  void commit() override {
    for (Output& output : outputs_) {
      output.file.sync();
      output.file.drop_cache(0, 0);
    }
    // Parts of an earlier build go first: a layer made of old and new parts would look whole to the engine.
    bool replaced = false;
    for (const Output& output : outputs_)
      if (exists(context_.os, output.path)) {
        remove_file(context_.os, output.path);
        replaced = true;
      }
    if (replaced) sync_dir(context_.os, directory_);
    for (Output& output : outputs_) {
      output.file.close();
      rename_file(context_.os, output.path + ".tmp", output.path);
    }
    sync_dir(context_.os, directory_);
    committed_ = true;
    for (Output& output : outputs_) {
      FileEntry entry;
      entry.path = name_of(output.path);
      entry.size = output.section_bytes * output.digests.size();
      entry.xxh3 = combine(output.digests);
      entry.blocks = std::move(output.digests);
      record_.files.push_back(std::move(entry));
    }
    std::sort(record_.files.begin(), record_.files.end(),
              [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
    records_.put(layer_, record_);
  }

 private:
  struct Output {
    Part part;
    std::string path;
    File file;
    std::uint64_t section_bytes;
    std::vector<Xxh3> digests;
  };
  Output& output_of(Section section) {
    for (Output& output : outputs_)
      if (output.part.section == section) return output;
    throw Error(directory_, fmt::format("{} of layer {} is not being written", name(section), layer_));
  }
  const Context& context_;
  const Records& records_;
  Manifest record_;
  const std::string directory_;
  const std::uint64_t layer_;
  std::vector<LockFile> lock_;
  std::vector<Output> outputs_;
  bool committed_ = false;
};

class PlanesCacheSink : public Sink {
 public:
  PlanesCacheSink(const Context& context, PlanesCacheSpec spec, Trust trust)
      : context_(context),
        spec_(std::move(spec)),
        trust_(trust),
        shape_(format::rank_shape(spec_.geometry, spec_.meta.world)),
        directory_(join(spec_.root, format::cache_directory(spec_.meta))),
        records_(context, join(directory_, kCacheRecords), join(directory_, "manifest.json")) {}

  std::string describe() const override { return directory_; }
  std::uint64_t rank() const override { return spec_.meta.rank; }

  void prepare() override {
    make_dirs(context_.os, directory_);
    const std::vector<LockFile> held = records_.lock();
    const std::string path = join(directory_, format::kMetaName), text = format::meta_json(spec_.meta);
    if (!exists(context_.os, path)) {
      write_atomically(context_.os, path, text);
      return;
    }
    const std::string found = read_text(context_.os, path, 1 << 20);
    try {
      if (format::parse_meta(found, path) == spec_.meta) return;
    } catch (const Error& error) {
      // The directory's name has a digest of this meta.json, so it can be of no other cache.
      if (trust_ != Trust::nothing)
        throw Error(path, fmt::format("{}; --force rebuilds it and the layers", error.reason()));
      write_atomically(context_.os, path, text);
      return;
    }
    throw Error(path, fmt::format("belongs to another cache: found {}, expected {}; move the directory away",
                                  found, text));
  }

  SectionSet missing(const SparseLayer& layer) override { return missing(layer.index, trust_); }

  std::uint64_t space_needed(const std::vector<const SparseLayer*>& layers) override {
    std::uint64_t bytes = 0;
    for (const SparseLayer* layer : layers) {
      const SectionSet sections = missing(layer->index, trust_ == Trust::nothing ? trust_ : Trust::record);
      for (std::size_t s = 0; s < sections.size(); ++s)
        if (sections[s])
          bytes += spec_.geometry.experts * section_bytes(static_cast<format::Section>(s), shape_);
    }
    return bytes;
  }

  std::unique_ptr<LayerOutput> open_layer(const SparseLayer& layer, const SectionSet& sections) override {
    std::vector<LockFile> lock;
    if (!records_.try_lock(layer.index, lock)) return nullptr;
    if (trust_ == Trust::record && missing(layer.index, trust_) == SectionSet{}) return nullptr;
    for (const Part& part : format::cache_parts(format::Fp4Tier::nibble))  // every part name there is
      remove_file(context_.os,
                  part_path(directory_, layer.index, part) + ".tmp");  // of a run that was killed
    std::vector<Part> to_make;
    for (const Part& part : format::cache_parts(spec_.fp4))
      if (sections[static_cast<std::size_t>(part.section)]) to_make.push_back(part);
    // What is about to be replaced must not be vouched for; parts that stay are.
    Manifest record{ManifestKind::planescache, version(), facts(layer.index), {}};
    if (const std::optional<Manifest> old = records_.find(layer.index)) {
      records_.forget(layer.index);
      if (!sections[static_cast<std::size_t>(Section::planes13)]) {
        record = *old;
        keep_tier(record, format::Fp4Tier::none);
        records_.put(layer.index, record);
        record.facts->fp4 = spec_.fp4;
      }
    }
    return std::make_unique<CacheLayer>(context_, records_, std::move(record), directory_, layer.index,
                                        std::move(to_make), shape_, std::move(lock));
  }

  bool seal() override {
    for (const std::uint64_t layer : spec_.all_layers) {
      const SectionSet left = missing(layer, Trust::record);
      if (std::find(left.begin(), left.end(), true) != left.end()) return false;
    }
    // Layers of drafters that an earlier build took, and this one does not, stay in the manifest.
    std::vector<std::uint64_t> layers = spec_.all_layers;
    const format::Geometry& geometry = spec_.geometry;
    for (std::uint64_t draft = geometry.drafts; draft < format::kMostDrafts; ++draft) {
      if (!records_.find(geometry.layers + draft)) break;
      layers.push_back(geometry.layers + draft);
    }
    return records_.seal(layers);
  }

 private:
  // A layer lacks everything, or its FP4 parts, or nothing.
  SectionSet missing(std::uint64_t layer, Trust trust) const {
    const std::optional<Manifest> record = trust == Trust::nothing ? std::nullopt : records_.find(layer);
    const auto lacks = [&](const Part& part) { return !has(record, layer, part, trust); };
    const std::vector<Part> all = format::cache_parts(spec_.fp4),
                            planes = format::cache_parts(format::Fp4Tier::none);
    const bool lacks_planes = std::any_of(planes.begin(), planes.end(), lacks);
    const bool lacks_some = lacks_planes || std::any_of(all.begin(), all.end(), lacks);
    SectionSet out{};
    for (std::size_t i = 0; i < all.size(); ++i)
      out[static_cast<std::size_t>(all[i].section)] = lacks_planes || (lacks_some && i >= planes.size());
    return out;
  }

  bool has(const std::optional<Manifest>& record, std::uint64_t layer, const Part& part, Trust trust) const {
    if (!record) return false;
    const std::string file = format::part_file(layer, part.name);
    for (const FileEntry& entry : record->files)
      if (entry.path == file) return sound(context_, directory_, *record, entry, trust);
    return false;
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
    return out;
  }

  const Context& context_;
  const PlanesCacheSpec spec_;
  const Trust trust_;
  const format::RankShape shape_;
  const std::string directory_;
  const Records records_;
};

}  // namespace

std::unique_ptr<Sink> make_planescache_sink(const Context& context, PlanesCacheSpec spec, Trust trust) {
  return std::make_unique<PlanesCacheSink>(context, std::move(spec), trust);
}

}  // namespace planesmith
