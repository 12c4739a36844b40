#include "sink/records.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/lock_file.h"

namespace planesmith {
namespace {

std::optional<Manifest> read_if_sound(Os& os, const std::string& path) {
  try {
    if (!exists(os, path)) return std::nullopt;
    return read_manifest(os, path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

Records::Records(const Context& context, std::string prefix, std::string manifest_path)
    : context_(context), prefix_(std::move(prefix)), manifest_path_(std::move(manifest_path)) {}

std::string Records::record_path(std::uint64_t layer) const {
  return fmt::format("{}/layer{}.json", prefix_, layer);
}
std::string Records::lock_path(std::uint64_t layer) const {
  return fmt::format("{}.layer{}.lock", prefix_, layer);
}

std::shared_ptr<const Manifest> Records::manifest() const {
  struct stat now {};
  if (context_.os.stat(manifest_path_.c_str(), &now) != 0) return nullptr;
  const std::lock_guard<std::mutex> lock(kept_.mutex);
  const struct stat& then = kept_.status;
  // An inode number alone may come back: the file before it was removed.
  const bool same = now.st_ino == then.st_ino && now.st_size == then.st_size &&
                    now.st_ctim.tv_sec == then.st_ctim.tv_sec && now.st_ctim.tv_nsec == then.st_ctim.tv_nsec;
  if (!same || !kept_.manifest) {
    std::optional<Manifest> read = read_if_sound(context_.os, manifest_path_);
    kept_.manifest = read ? std::make_shared<const Manifest>(std::move(*read)) : nullptr;
    kept_.status = now;
  }
  return kept_.manifest;
}

std::optional<Manifest> Records::find(std::uint64_t layer) const {
  if (std::optional<Manifest> record = read_if_sound(context_.os, record_path(layer))) return record;
  const std::shared_ptr<const Manifest> whole = manifest();
  return whole ? layer_of(*whole, layer) : std::nullopt;
}

void Records::put(std::uint64_t layer, const Manifest& record) const {
  const std::vector<LockFile> held = lock();
  make_dirs(context_.os, prefix_);
  write_atomically(context_.os, record_path(layer), to_json(record));
}

void Records::forget(std::uint64_t layer) const {
  const std::vector<LockFile> held = lock();
  if (const std::shared_ptr<const Manifest> whole = manifest()) {
    // The manifest goes back into records: what it says of other layers stays known.
    make_dirs(context_.os, prefix_);
    for (const std::uint64_t other : whole->facts->layers)
      if (other != layer && !exists(context_.os, record_path(other)))
        write_atomically(context_.os, record_path(other), to_json(*layer_of(*whole, other)));
  }
  remove_file(context_.os, manifest_path_);
  sync_dir(context_.os, parent_of(manifest_path_));
  if (exists(context_.os, prefix_)) {
    remove_file(context_.os, record_path(layer));
    sync_dir(context_.os, prefix_);
  }
}

bool Records::try_lock(std::uint64_t layer, std::vector<LockFile>& held) const {
  const std::vector<LockFile> whole = lock();
  return LockFile::try_take(context_.os, lock_path(layer), held);
}

std::vector<LockFile> Records::lock() const {
  return wait_for_lock(context_, prefix_ + ".lock");
}

bool Records::seal(const std::vector<std::uint64_t>& layers) const {
  const std::vector<LockFile> held = lock();
  std::vector<Manifest> found;
  for (const std::uint64_t layer : layers) {
    std::optional<Manifest> record = find(layer);
    if (!record) return false;
    found.push_back(std::move(*record));
  }
  const Manifest whole = merge(found);
  if (exists(context_.os, prefix_) || !exists(context_.os, manifest_path_))
    write_atomically(context_.os, manifest_path_, to_json(whole));
  // Records that are merged go. Those that know of FP4 parts which other layers lack yet stay.
  if (exists(context_.os, prefix_)) {
    for (std::size_t i = 0; i < layers.size(); ++i)
      if (found[i].facts->fp4 == whole.facts->fp4) remove_file(context_.os, record_path(layers[i]));
    for (const std::string& name : list_dir(context_.os, prefix_))
      if (name.ends_with(".tmp")) remove_file(context_.os, join(prefix_, name));
    remove_dir_if_empty(context_.os, prefix_);
  }
  // Locks whose holders were killed are taken once more, which removes them.
  for (const std::uint64_t layer : layers) {
    std::vector<LockFile> stale;
    if (exists(context_.os, lock_path(layer))) LockFile::try_take(context_.os, lock_path(layer), stale);
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
      // A pack's blocks stand layer after layer, equally many for each.
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
    out.facts->layers.push_back(next.facts->layers.front());
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
