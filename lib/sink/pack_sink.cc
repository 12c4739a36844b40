#include "sink/pack_sink.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/file_status.h"
#include "base/stream.h"
#include "base/text.h"
#include "base/version.h"
#include "sink/clear_gaps.h"
#include "sink/engine_lock.h"
#include "sink/holds.h"

namespace planesmith {

using format::Section;

namespace {
constexpr std::uint64_t kMostSidecar = 1 << 24;
constexpr std::string_view kOtherPack = "other-pack";
}  // namespace

// --- a layer being written ---

PackLayer::PackLayer(PackSink& sink, std::uint64_t key, File pack, bool compare, std::vector<LockFile> lock)
    : sink_(sink),
      key_(key),
      pack_(std::move(pack)),
      compare_(compare),
      compared_(compare),
      lock_(std::move(lock)),
      digests_(sink.spec_.pack.experts * sink.sections_.size()),
      ranges_(digests_.size()) {
  const format::PackSpec& spec = sink_.spec_.pack;
  const std::uint64_t begin = spec.row_offset(key_, 0);
  writer_.emplace(sink_.context_, pack_, begin, begin + spec.experts * spec.stride, sink_.spec_.world);
}

PackLayer::Place PackLayer::place(std::uint64_t expert, Section section) const {
  Place out{sink_.spec_.pack.row_offset(key_, expert), expert * sink_.sections_.size()};
  for (const Section earlier : sink_.sections_) {
    if (earlier == section) return out;
    out.offset += section_bytes(earlier, sink_.shape_);
    ++out.number;
  }
  throw Error(sink_.pack_path(), "has no such section in its slots");
}

void PackLayer::write(std::uint64_t expert, Section section, std::uint64_t offset, ConstBytes bytes) {
  const Place to = place(expert, section);
  const std::uint64_t at = to.offset + offset;
  if (compare_) {
    if (holds(pack_, at, bytes)) return;
    unlist();
  }
  writer_->write(pack_, ranges_[to.number], bytes, at);
}

void PackLayer::unlist() {
  const std::lock_guard<std::mutex> lock(unlisting_);
  if (compare_) sink_.list(key_, false);
  compare_ = false;
}

void PackLayer::finish(std::uint64_t expert, Section section, const Xxh3& digest) {
  const Place at = place(expert, section);
  writer_->finish(ranges_[at.number]);
  pack_.start_writeback(at.offset, section_bytes(section, sink_.shape_));
  digests_[at.number] = digest;
}

bool PackLayer::share(std::uint64_t expert, Section section, const File& from, std::uint64_t offset,
                      const Xxh3& digest) {
  const Place to = place(expert, section);
  if (compare_) {
    if (holds(pack_, to.offset, from, offset, section_bytes(section, sink_.shape_))) {
      digests_[to.number] = digest;
      return true;
    }
    unlist();
  }
  if (!pack_.try_clone(to.offset, from, offset, section_bytes(section, sink_.shape_))) return false;
  digests_[to.number] = digest;
  return true;
}

void PackLayer::commit() {
  if (compared_ && !compare_)
    sink_.context_.progress.say(
        fmt::format("{}: layer key {} differed from what its source gives; it was written again",
                    sink_.pack_path(), key_));
  writer_.reset();
  pack_.sync();
  pack_.drop_cache(sink_.spec_.pack.row_offset(key_, 0), sink_.spec_.pack.experts * sink_.spec_.pack.stride);
  pack_.close();
  sink_.records_.put(key_, sink_.record_of({key_}, digests_));
  sink_.list(key_, true);
}

// --- the pack ---

PackSink::PackSink(const Context& context, PackSinkSpec spec, Trust trust)
    : context_(context),
      spec_(std::move(spec)),
      trust_(trust),
      shape_(format::rank_shape(spec_.geometry, spec_.world)),
      sections_(format::slot_sections(spec_.pack.tier)),
      stem_(format::pack_stem(spec_.pack, spec_.rank, spec_.world)),
      dir_(context.os, spec_.directory, "."),
      records_(context, dir_, format::pack_records(stem_), format::pack_manifest_file(stem_), spec_.source,
               spec_.records) {}

File PackSink::engine_lock() const {
  return wait_for_engine_lock(context_, dir_.get(), format::lock_file(stem_));
}

bool PackSink::has_sidecar() const {
  const Dir* const dir = dir_.find();
  return dir != nullptr && dir->exists(sidecar_name());
}

std::vector<std::uint64_t> PackSink::listed() const {
  const Dir& dir = dir_.get();
  const std::string path = dir.path_of(sidecar_name());
  format::Sidecar sidecar = format::parse_sidecar(dir.read_text(sidecar_name(), kMostSidecar), path);
  if (sidecar.spec != spec_.pack)
    throw Error(path, "describes a pack of another identity or geometry than its name").labelled(kOtherPack);
  return sidecar.layer_keys;
}

std::vector<std::uint64_t> PackSink::proven() const {
  std::vector<std::uint64_t> keys;
  for (const std::uint64_t key : spec_.all_keys)
    if (const std::shared_ptr<const Record> record = records_.find(key))
      if (record->manifest.files.front().blocks == read_back(key).manifest.files.front().blocks)
        keys.push_back(key);
  return keys;
}

// The pack's name contains a digest of everything in the sidecar but its layers, and records name the layers:
// both together replace a sidecar that is damaged or lost. Without a record nothing is known, and nothing is
// changed.
void PackSink::repair_sidecar() {
  const Dir& dir = dir_.get();
  const bool there = has_sidecar();
  std::string problem = "is missing";
  bool another = false;  // the sidecar is sound, but of another pack
  if (there) try {
      const std::vector<std::uint64_t> keys = listed();
      const bool strange = std::any_of(keys.begin(), keys.end(), [&](std::uint64_t key) {
        return !std::binary_search(spec_.all_keys.begin(), spec_.all_keys.end(), key);
      });
      if (!strange || trust_ == Trust::record) return;
      problem = "lists layers that the model does not have";
    } catch (const Error& error) {
      problem = error.reason();
      another = error.label() == kOtherPack;
    }
  const bool known = std::any_of(spec_.all_keys.begin(), spec_.all_keys.end(),
                                 [&](std::uint64_t key) { return records_.find(key) != nullptr; });
  const std::optional<struct stat> pack = dir.look(pack_name());
  const bool whole =
      pack && S_ISREG(pack->st_mode) && static_cast<std::uint64_t>(pack->st_size) == spec_.pack.file_bytes();
  if (!there && !(known && whole)) return;
  const std::string path = dir.path_of(sidecar_name());
  if (there && trust_ == Trust::record)
    throw Error(path, fmt::format("{}; --recheck writes it again, and so does verify-ckpt-id repair {}",
                                  problem, shell_quoted(spec_.directory)));
  if (there && !known && (another || trust_ != Trust::nothing))
    throw Error(path, fmt::format("{}, and no manifest says which is right; it is left alone: move it away",
                                  problem));
  context_.progress.say(fmt::format(
      "{} {}; it is written again with the layers whose content is what the manifest says", path, problem));
  std::vector<std::uint64_t> keys;
  if (whole && trust_ != Trust::nothing) keys = proven();
  dir.write_atomically(sidecar_name(), format::sidecar_json(spec_.pack, keys));
}

bool PackSink::compares() const {
  return spec_.compare_unknown && trust_ != Trust::nothing;
}

bool PackSink::comparable(std::uint64_t key) const {
  return compares() && !records_.find(key);
}

void PackSink::list(std::uint64_t key, bool present) const {
  const std::lock_guard<std::mutex> turn(listing_);
  const File lock = engine_lock();
  std::vector<std::uint64_t> keys = listed();
  std::erase(keys, key);
  if (present) keys.push_back(key);
  dir_.get().write_atomically(sidecar_name(), format::sidecar_json(spec_.pack, keys));
}

void PackSink::prepare() {
  const Dir& dir = dir_.make();
  records_.claim();
  const File lock = engine_lock();
  repair_sidecar();
  bool have_sidecar = has_sidecar();
  const std::optional<struct stat> there = dir.look(pack_name());
  if (there) {
    // The pack is filled in place, so writing would go to the file that the link leads to.
    if (S_ISLNK(there->st_mode))
      throw Error(pack_path(),
                  fmt::format("is a symbolic link to {}; packs are not written through links: build "
                              "into the directory that it leads to, or remove it",
                              dir.read_link(pack_name())));
    const auto size = static_cast<std::uint64_t>(there->st_size);
    if (size != spec_.pack.file_bytes() && (have_sidecar || size != 0)) {
      if (trust_ != Trust::nothing)
        throw Error(
            pack_path(),
            fmt::format(
                "has {} bytes instead of {}; it is left alone: move it away, or rebuild it with --force",
                size, spec_.pack.file_bytes()));
      dir.unlink(sidecar_name());  // nothing in the pack can be trusted
      have_sidecar = false;
    }
  } else if (have_sidecar) {
    // Without its pack the sidecar is meaningless.
    dir.unlink(sidecar_name());
    have_sidecar = false;
  }
  if (have_sidecar) return;
  File pack = there ? dir.open_write(pack_name()) : dir.create_new(pack_name());
  pack.truncate(spec_.pack.file_bytes());
  pack.sync();
  dir.sync();
  dir.write_atomically(sidecar_name(), format::sidecar_json(spec_.pack, {}));
}

bool PackSink::finished(std::uint64_t key, Trust trust) const {
  if (trust == Trust::nothing || !has_sidecar()) return false;
  std::vector<std::uint64_t> keys;
  try {
    keys = listed();
  } catch (const Error&) {  // prepare() deals with it
    return false;
  }
  if (std::find(keys.begin(), keys.end(), key) == keys.end()) return false;
  if (comparable(key)) return false;
  if (trust == Trust::record) return true;
  const std::shared_ptr<const Record> record = records_.find(key);
  return record && record->manifest.files.front().blocks == read_back(key).manifest.files.front().blocks;
}

SectionSet PackSink::missing(const SparseLayer& layer) {
  SectionSet out{};
  if (!finished(layer.key, trust_))
    for (const Section section : sections_) out[static_cast<std::size_t>(section)] = true;
  return out;
}

// Layers are replaced in place.
std::uint64_t PackSink::space_needed(const std::vector<const SparseLayer*>& layers, std::size_t) {
  require_flock(context_.os, spec_.directory);  // fails before anything is created
  std::vector<std::uint64_t> keys;
  std::uint64_t allocated = 0;
  try {
    if (has_sidecar()) keys = listed();
  } catch (const Error&) {  // prepare() deals with it
  }
  if (const Dir* const dir = dir_.find())
    if (const std::optional<struct stat> there = dir->look(pack_name())) allocated = allocated_bytes(*there);
  for (const SparseLayer* layer : layers)
    if (std::find(keys.begin(), keys.end(), layer->key) == keys.end()) keys.push_back(layer->key);
  const std::uint64_t final = keys.size() * spec_.pack.experts * spec_.pack.stride;
  return final > allocated ? final - allocated : 0;
}

std::unique_ptr<PackLayer> PackSink::open_pack_layer(std::uint64_t layer_key) {
  std::vector<LockFile> lock;
  if (!records_.try_lock(layer_key, lock)) return nullptr;
  if (trust_ == Trust::record && finished(layer_key, Trust::record)) return nullptr;
  const std::vector<std::uint64_t> keys = listed();
  const bool is_listed = std::find(keys.begin(), keys.end(), layer_key) != keys.end();
  const bool compare = is_listed && comparable(layer_key);
  if (is_listed && !compare) list(layer_key, false);
  if (records_.find(layer_key)) records_.forget(layer_key);
  return std::make_unique<PackLayer>(*this, layer_key, dir_.get().open_write(pack_name()), compare,
                                     std::move(lock));
}

std::unique_ptr<LayerOutput> PackSink::open_layer(const SparseLayer& layer, const SectionSet&) {
  return open_pack_layer(layer.key);
}

bool PackSink::seal() {
  records_.read_ahead(spec_.all_keys);
  std::vector<std::uint64_t> unknown;  // listed, but written by another program
  for (const std::uint64_t key : spec_.all_keys) {
    if (!finished(key, Trust::record)) return false;
    if (!records_.find(key)) unknown.push_back(key);
  }
  if (!unknown.empty()) {
    context_.progress.say(
        fmt::format("{}: layer keys {} are listed by its sidecar and were not written by this program: "
                    "their digests are taken from the bytes that are there",
                    pack_path(), fmt::join(unknown, ", ")));
    context_.progress.begin("read layers of others",
                            unknown.size() * spec_.pack.experts * spec_.pack.slot_bytes);
    for (const std::uint64_t key : unknown) records_.put(key, read_back(key));
    context_.progress.end();
  }
  if (trust_ != Trust::record) {
    // All layers are there, so no run writes any more.
    const Manifest all = record_of(spec_.all_keys, {}).manifest;
    File pack = dir_.get().open_write(pack_name());
    const std::uint64_t strays = clear_gaps(context_, pack, block_ranges(all, all.files.front()));
    if (strays != 0)
      context_.progress.say(fmt::format("{}: {} bytes outside the rows were not zero and have been zeroed",
                                        pack_path(), strays));
  }
  return records_.seal(spec_.all_keys);
}

Sink::Standing PackSink::standing(const std::vector<const SparseLayer*>& layers) {
  Standing out;
  if (!has_sidecar()) return out;
  std::vector<std::uint64_t> keys;
  try {
    keys = listed();
  } catch (const Error&) {
    out.remark = dir_.get().path_of(sidecar_name()) + " is damaged: --recheck writes it again";
    return out;
  }
  if (compares()) records_.read_ahead(keys);
  for (const SparseLayer* layer : layers) {
    if (!std::binary_search(keys.begin(), keys.end(), layer->key)) continue;
    if (comparable(layer->key))
      ++out.compared;
    else if (trust_ != Trust::nothing)
      ++out.finished;
  }
  if (out.compared != 0) out.remark = records_.remark_compared(pack_path(), out.compared);
  return out;
}

Record PackSink::record_of(std::vector<std::uint64_t> keys, std::vector<Xxh3> digests) const {
  CacheFacts facts;
  facts.ckpt_id = spec_.pack.ckpt_id;
  facts.world = spec_.world;
  facts.rank = spec_.rank;
  facts.zero_mode = spec_.pack.zero_mode;
  facts.geometry = spec_.geometry;
  facts.layers = std::move(keys);
  facts.source = spec_.source;
  if (!spec_.source.empty()) facts.family = spec_.family;  // source and family go together
  facts.tier = spec_.pack.tier;
  facts.id_by_download = spec_.id_by_download;
  FileEntry entry;
  entry.path = pack_name();
  entry.size = spec_.pack.file_bytes();
  entry.xxh3 = combine(digests);
  entry.blocks = std::move(digests);
  // No stamps: all layers share the file, whose times change with each of them. The sidecar lists what is
  // durable.
  return {{ManifestKind::pack, version(), std::move(facts), {std::move(entry)}}, nullptr};
}

Record PackSink::read_back(std::uint64_t key) const {
  const File pack = dir_.get().open_read(pack_name());
  std::vector<Xxh3> digests;
  std::vector<std::uint8_t> buffer(kStreamBuffer);
  Xxh3Stream hash;
  for (std::uint64_t expert = 0; expert < spec_.pack.experts; ++expert) {
    std::uint64_t offset = spec_.pack.row_offset(key, expert);
    for (const Section section : sections_) {
      const std::uint64_t bytes = section_bytes(section, shape_);
      stream(context_, pack, offset, bytes, buffer, [&](ConstBytes piece) { hash.update(piece); });
      digests.push_back(hash.finish());
      offset += bytes;
    }
  }
  Record record = record_of({key}, std::move(digests));
  record.manifest.facts->source.clear();  // this run did not make it, so its source is unknown
  record.manifest.facts->family.reset();
  return record;
}

}  // namespace planesmith
