#include "sink/records.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/parallel.h"
#include "base/temporary.h"
#include "base/text.h"
#include "format/file_names.h"

namespace planesmith {
namespace {

constexpr std::size_t kDepth = 64;
constexpr std::uint64_t kMostClaim = 256;  // bytes; a fingerprint is 64 hex digits
constexpr char kManifest[] = "manifest", kFiles[] = "files", kClaim[] = "source", kDigest[] = "digest";

}  // namespace

Records::Records(const Context& context, const OutputDir& dir, std::string prefix, std::string manifest,
                 std::string source, std::shared_ptr<RecordCache> cache)
    : context_(context),
      dir_(dir),
      prefix_(std::move(prefix)),
      manifest_(std::move(manifest)),
      source_(std::move(source)),
      cache_(std::move(cache)) {}

std::string Records::claimed() const {
  const std::optional<Dir> records = directory();
  try {
    return records && records->exists(kClaim) ? records->read_text(kClaim, kMostClaim) : "";
  } catch (const Error&) {
    return "";  // a directory that is not ours claims nothing
  }
}

std::string Records::recorded_source() const {
  if (const std::shared_ptr<const Record> whole = manifest(); whole && !whole->manifest.facts->source.empty())
    return whole->manifest.facts->source;
  const std::optional<Dir> records = directory();
  if (!records) return "";
  for (const std::string& name : records->list()) {
    const std::optional<std::uint64_t> layer = format::parse_record_file(name);
    if (!layer) continue;
    const std::shared_ptr<const Record> record = read(*records, *layer);
    if (record && record->manifest.facts && !record->manifest.facts->source.empty())
      return record->manifest.facts->source;
  }
  return "";
}

std::string Records::source() const {
  const std::string recorded = recorded_source();
  return recorded.empty() ? claimed() : recorded;
}

bool Records::in_work() const {
  const Dir& dir = dir_.get();
  for (const std::string& name : dir.list()) {
    if (!format::is_layer_lock(name, prefix_)) continue;
    std::vector<LockFile> held;
    if (!LockFile::try_take(dir, name, held, context_.group_shared)) return true;
  }
  return false;
}

void Records::refuse_other_source() const {
  const std::string there = recorded_source();
  if (source_.empty() || there.empty() || there == source_) return;
  throw Error(
      ErrorCode::usage, dir_.path(),
      fmt::format("{} was made from another checkpoint: its source is {}, this checkpoint's is {}; "
                  "choose another --ckpt-id or another directory, or remove what is there with "
                  "verify-ckpt-id prune",
                  prefix_ == format::kCacheRecords ? "what is there" : prefix_.substr(1), there, source_))
      .labelled("other-source");
}

void Records::claim() const {
  const Turn turn = lock();
  refuse_other_source();
  if (source_.empty()) return;
  if (const std::string other = claimed(); !other.empty() && other != source_ && in_work())
    throw Error(ErrorCode::usage, dir_.path(),
                fmt::format("another run is writing this from another checkpoint: its source is {}, this "
                            "checkpoint's is {}; choose another --ckpt-id or another directory",
                            printable(other), source_))
        .labelled("other-source");
  if (recorded_source() == source_) return;
  if (manifest())
    context_.progress.warn(
        fmt::format("{} does not say what it was made from (it is older than fingerprints); verify-ckpt-id "
                    "check --checkpoint DIR --sample 20 tells whether it was this checkpoint",
                    dir_.get().path_of(manifest_)));
  if (claimed() == source_) return;
  dir_.get()
      .make_private_dir(prefix_, context_.group_shared)
      .write_atomically(kClaim, source_, context_.group_shared ? 0660 : 0600);
}

std::string Records::manifest_problem() const {
  const Dir* const dir = dir_.find();
  if (dir == nullptr || !dir->exists(manifest_)) return "";
  try {
    parse_manifest(dir->read_text(manifest_, manifest_text_limit(context_.memory)), dir->path_of(manifest_),
                   context_.memory);
    return "";
  } catch (const Error& error) {
    return error.reason();
  }
}

std::string Records::remark_compared(const std::string& artifact, std::uint64_t layers) const {
  const std::string problem = manifest_problem();
  return fmt::format(
      "{}: {} layers are there and nothing says what they should be ({}): they are compared with what would "
      "be written, and the manifest is written",
      artifact, layers, problem.empty() ? "no " + manifest_ : manifest_ + " " + problem);
}

std::optional<Dir> Records::directory() const {
  const Dir* const dir = dir_.find();
  return dir == nullptr ? std::nullopt : dir->find_private_dir(prefix_, context_.group_shared);
}

void Records::say_ignored(const std::string& path, const std::string& why) const {
  context_.os.note_once(path, fmt::format("{} is ignored and made again: {}", path, why));
}

// Records of earlier versions are bare manifests.
std::shared_ptr<const Record> Records::read(const Dir& records, std::uint64_t layer) const {
  const std::string name = format::record_file(layer), path = records.path_of(name);
  if (!records.exists(name)) return nullptr;
  try {
    return cache_->read(records, name, manifest_text_limit(context_.memory), [&](const std::string& text) {
      const Json json = parse_json(text, path, kDepth, context_.memory / 5 * 2);
      if (!json.is_object() || !json.contains(kManifest))
        return Record{parse_manifest(text, path), Json::object()};
      return Record{parse_manifest(compact(json[kManifest]), path), json.value(kFiles, Json::object())};
    });
  } catch (const Error& error) {
    say_ignored(path, error.reason());
  }
  return nullptr;
}

void Records::read_ahead(const std::vector<std::uint64_t>& layers) const {
  if (const std::optional<Dir> records = directory())
    parallel_for(layers.size(), context_.threads, [&](std::size_t i, int) { read(*records, layers[i]); });
}

void Records::write(const Dir& records, std::uint64_t layer, const Record& record) const {
  Json manifest = parse_json(to_json(record.manifest), prefix_, kDepth, context_.memory);
  manifest.erase(kDigest);  // of the manifest's text, which this is not
  const Json json = {{kManifest, std::move(manifest)}, {kFiles, record.stamps}};
  const std::string name = format::record_file(layer);
  records.write_atomically(name, compact(json), context_.group_shared ? 0660 : 0600);
  cache_->drop(records.path_of(name));
}

void Records::unlink(const Dir& dir, const std::string& name) const {
  dir.unlink(name);
  cache_->drop(dir.path_of(name));
}

std::shared_ptr<const Record> Records::manifest() const {
  const Dir* const dir = dir_.find();
  if (dir == nullptr || !dir->exists(manifest_)) return nullptr;
  const std::string path = dir->path_of(manifest_);
  const std::lock_guard<std::mutex> lock(reading_);
  try {
    return cache_->read(*dir, manifest_, manifest_text_limit(context_.memory), [&](const std::string& text) {
      return Record{parse_manifest(text, path, context_.memory), nullptr};
    });
  } catch (const Error& error) {
    say_ignored(path, error.reason());
  }
  return nullptr;
}

std::shared_ptr<const Record> Records::find(std::uint64_t layer) const {
  if (const std::optional<Dir> records = directory())
    if (std::shared_ptr<const Record> record = read(*records, layer)) return record;
  const std::shared_ptr<const Record> whole = manifest();
  std::optional<Manifest> share = whole ? layer_of(whole->manifest, layer) : std::nullopt;
  if (!share) return nullptr;
  return std::make_shared<const Record>(Record{std::move(*share), nullptr});
}

void Records::put(std::uint64_t layer, const Record& record) const {
  const Turn turn = lock();
  // Another run may have claimed the artifact before this one locked a layer.
  if (const std::string other = claimed(); !other.empty() && !source_.empty() && other != source_)
    throw Error(ErrorCode::usage, dir_.path(),
                "another run has begun to write this from another checkpoint; choose another --ckpt-id")
        .labelled("other-source");
  write(dir_.get().make_private_dir(prefix_, context_.group_shared), layer, record);
}

void Records::forget(std::uint64_t layer) const {
  const Turn turn = lock();
  const Dir& dir = dir_.get();
  if (const std::shared_ptr<const Record> whole = manifest()) {
    // Split the manifest into records again, so that other layers stay known.
    const Dir records = dir.make_private_dir(prefix_, context_.group_shared);
    for (const std::uint64_t other : whole->manifest.facts->layers)
      if (other != layer && !records.exists(format::record_file(other)))
        write(records, other, {*layer_of(whole->manifest, other), nullptr});
  }
  unlink(dir, manifest_);
  dir.sync();
  if (const std::optional<Dir> records = directory()) {
    unlink(*records, format::record_file(layer));
    records->sync();
  }
}

bool Records::try_lock(std::uint64_t layer, std::vector<LockFile>& held) const {
  const Turn turn = lock();
  return LockFile::try_take(dir_.get(), format::layer_lock(prefix_, layer), held, context_.group_shared);
}

Records::Turn Records::lock() const {
  std::unique_lock thread(turn_);
  return {std::move(thread), wait_for_lock(context_, dir_.get(), format::records_lock(prefix_))};
}

bool Records::seal(const std::vector<std::uint64_t>& layers) const {
  const Turn turn = lock();
  std::vector<std::shared_ptr<const Record>> found;
  std::vector<Manifest> manifests;
  for (const std::uint64_t layer : layers) {
    found.push_back(find(layer));
    if (!found.back()) return false;
    manifests.push_back(found.back()->manifest);
  }
  const Manifest whole = merge(std::move(manifests));
  const Dir& dir = dir_.get();
  const std::optional<Dir> records = directory();
  if (records || !dir.exists(manifest_)) {
    dir.write_atomically(manifest_, to_json(whole));
    cache_->drop(dir.path_of(manifest_));
  }
  // Remove merged records. Keep those with FP4 parts that other layers still lack.
  if (records) {
    records->unlink(kClaim);
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (found[i]->manifest.facts->fp4 == whole.facts->fp4) unlink(*records, format::record_file(layers[i]));
    for (const std::string& name : records->list())
      if (is_temporary_name(name)) records->unlink(name);
    dir.rmdir(prefix_);
  }
  // Taking a lock whose holder was killed, and releasing it, removes its file.
  for (const std::uint64_t layer : layers) {
    std::vector<LockFile> stale;
    if (dir.exists(format::layer_lock(prefix_, layer)))
      LockFile::try_take(dir, format::layer_lock(prefix_, layer), stale, context_.group_shared);
  }
  return true;
}

std::optional<Manifest> layer_of(const Manifest& manifest, std::uint64_t layer) {
  if (!manifest.facts) return std::nullopt;
  const std::vector<std::uint64_t>& layers = manifest.facts->layers;
  const auto at = std::find(layers.begin(), layers.end(), layer);
  if (at == layers.end()) return std::nullopt;
  Manifest out{manifest.kind, manifest.tool, manifest.facts, {}};
  out.facts->layers = {layer};
  if (manifest.kind == ManifestKind::planescache) {
    const std::string prefix = fmt::format("layer{}.", layer);
    for (const FileEntry& file : manifest.files)
      if (file.path.starts_with(prefix)) out.files.push_back(file);
  } else {
    for (FileEntry file : manifest.files) {
      // A pack's blocks are in order of layers, the same number for each.
      const std::size_t per_layer = file.blocks.size() / layers.size();
      const auto first = file.blocks.begin() + static_cast<std::ptrdiff_t>(per_layer) * (at - layers.begin());
      file.blocks = std::vector<Xxh3>(first, first + static_cast<std::ptrdiff_t>(per_layer));
      file.xxh3 = combine(file.blocks);
      out.files.push_back(std::move(file));
    }
  }
  return out;
}

void keep_tier(Manifest& manifest, format::Fp4Tier tier) {
  manifest.facts->fp4 = tier;
  std::erase_if(manifest.files, [&](const FileEntry& file) {
    const std::vector<format::Part> parts = format::cache_parts(tier);
    return std::none_of(parts.begin(), parts.end(), [&](const format::Part& part) {
      return file.path == format::part_file(manifest.facts->layers.front(), part.name);
    });
  });
}

Manifest merge(std::vector<Manifest> layers) {
  const bool cache = layers.front().kind == ManifestKind::planescache;
  if (cache && std::any_of(layers.begin(), layers.end(),
                           [](const Manifest& layer) { return layer.facts->fp4 == format::Fp4Tier::none; }))
    for (Manifest& layer : layers) keep_tier(layer, format::Fp4Tier::none);
  Manifest out = layers.front();
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const Manifest& next = layers[i];
    if (out.facts->source.empty()) out.facts->source = next.facts->source;
    if (!out.facts->family) out.facts->family = next.facts->family;
    if (!next.facts->source.empty() && next.facts->source != out.facts->source)
      throw Error(ErrorCode::difference, "",
                  fmt::format("layers {} and {} were made from different checkpoints ({} and {})",
                              layers.front().facts->layers.front(), next.facts->layers.front(),
                              out.facts->source, next.facts->source))
          .labelled("other-source");
    out.facts->layers.push_back(next.facts->layers.front());
    out.facts->id_by_download |= next.facts->id_by_download;
    if (cache) {
      out.files.insert(out.files.end(), next.files.begin(), next.files.end());
    } else {
      std::vector<Xxh3>& blocks = out.files.front().blocks;
      blocks.insert(blocks.end(), next.files.front().blocks.begin(), next.files.front().blocks.end());
    }
  }
  if (cache) count_drafts(*out.facts);
  for (FileEntry& file : out.files) file.xxh3 = combine(file.blocks);
  std::sort(out.files.begin(), out.files.end(),
            [](const FileEntry& a, const FileEntry& b) { return a.path < b.path; });
  return out;
}

}  // namespace planesmith
