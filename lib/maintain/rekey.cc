#include "maintain/rekey.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "maintain/retire.h"
#include "store/store.h"

namespace planesmith {
namespace {

bool same_file(Os& os, const std::string& a, const std::string& b) {
  const struct stat left = status(os, a), right = status(os, b);
  return left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

void write_durably(Os& os, const std::string& path, std::string_view text) {
  File file = File::create(os, path);
  file.write(bytes_of(text), 0);
  file.sync();
  file.close();
}

// Tidies up behind a failure, which is what gets reported.
void quietly(const std::function<void()>& tidy) {
  try {
    tidy();
  } catch (const Error&) {
  }
}

// One rank's directory or one pack that is to get the new identity.
class Item {
 public:
  virtual ~Item() = default;
  virtual RekeyReport::Item paths() const = 0;
  virtual void check() = 0;  // looks at what is there now; Errors: it must not be touched
  virtual void lock(StoreLocks& locks) = 0;
  virtual void make_new(StoreLocks& locks) = 0;
  virtual void remove_old() = 0;
};

// The manifest under the new identity; empty: there is none.
std::string manifest_under(Os& os, const std::string& path, const std::string& ckpt_id,
                           const std::function<void(Manifest&)>& adapt) {
  if (!exists(os, path)) return "";
  Manifest manifest = read_manifest(os, path);
  manifest.facts->ckpt_id = ckpt_id;
  adapt(manifest);
  return to_json(manifest);
}

class CacheItem : public Item {
 public:
  CacheItem(Os& os, const std::string& root, const FoundCache& old, const std::string& to)
      : os_(os), old_(old), meta_(*old.meta) {
    meta_.ckpt_id = to;
    new_ = join(root, format::cache_directory(meta_));
  }

  RekeyReport::Item paths() const override { return {old_.path, new_}; }

  void check() override {
    struct stat st {};
    if (os_.lstat(old_.path.c_str(), &st) != 0 || !S_ISDIR(st.st_mode))
      throw Error(old_.path, "is a link to a directory; rekey the directory where it stands");
    data_.clear();
    for (const std::string& name : list_dir(os_, old_.path)) {
      const std::string path = join(old_.path, name);
      if (name == std::string(kCacheRecords) + ".lock")
        continue;  // whether somebody holds it is seen when it is taken
      if (name.starts_with(kCacheRecords))
        throw Error(path, "is of a build that has not finished; let it finish first");
      if (os_.lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode))
        throw Error(path, "is a directory, which a planes cache does not have; move it away first");
      if (name != format::kMetaName && name != "manifest.json") data_.push_back(name);
    }
    if (!old_.note.empty())
      throw Error(old_.path, old_.note + "; verify the cache, or remove the manifest first");
    made_ = exists(os_, new_);
    if (!made_) return;
    for (const std::string& name : data_)
      if (!exists(os_, join(new_, name)) || !same_file(os_, join(old_.path, name), join(new_, name)))
        throw Error(new_, "holds another cache of the new identity; remove one of them first (prune)");
  }

  void lock(StoreLocks& locks) override { take_locks(os_, old_, locks); }

  void make_new(StoreLocks&) override {
    if (!made_) {
      const std::string half = new_ + ".tmp";
      remove_cache(os_, half);  // of a run that was cut short
      make_dirs(os_, half);
      try {
        fill(half);
        rename_file(os_, half, new_);
      } catch (...) {
        quietly([&] { remove_cache(os_, half); });
        throw;
      }
    }
    // Also where it was made before: whether its names became durable then is not known.
    sync_dir(os_, parent_of(new_));
    sync_dir(os_, parent_of(parent_of(new_)));
  }

  void remove_old() override {
    const std::string going = old_.path + ".tmp";
    if (exists(os_, going)) remove_cache(os_, going);
    rename_file(os_, old_.path, going);
    sync_dir(os_, parent_of(old_.path));
    remove_cache(os_, going);
  }

 private:
  void fill(const std::string& directory) const {
    for (const std::string& name : data_) link_file(os_, join(old_.path, name), join(directory, name));
    const std::string manifest = manifest_under(os_, old_.manifest_path(), meta_.ckpt_id, [](Manifest&) {});
    if (!manifest.empty()) write_durably(os_, join(directory, "manifest.json"), manifest);
    write_durably(os_, join(directory, format::kMetaName), format::meta_json(meta_));
    sync_dir(os_, directory);
  }

  Os& os_;
  const FoundCache& old_;
  format::CacheMeta meta_;
  std::string new_;
  std::vector<std::string> data_;  // names of files that are linked
  bool made_ = false;
};

class PackItem : public Item {
 public:
  PackItem(Os& os, const std::string& directory, const FoundPack& old, const std::string& to)
      : os_(os), old_(old), sidecar_(*old.sidecar) {
    sidecar_.spec.ckpt_id = to;
    new_ = join(directory, format::pack_stem(sidecar_.spec, old.rank, old.world));
  }

  RekeyReport::Item paths() const override { return {old_.stem, new_}; }

  void check() override {
    if (exists(os_, join(parent_of(old_.stem), "." + name_of(old_.stem))))
      throw Error(old_.stem + ".pack", "has a build that has not finished; let it finish first");
    if (!old_.note.empty())
      throw Error(old_.stem + ".pack", old_.note + "; verify the pack, or remove the manifest first");
    const bool have_old = exists(os_, old_.stem + ".pack");
    made_ = exists(os_, new_ + ".pack");
    if (!have_old && !made_) throw Error(old_.stem + ".pack", "is missing");
    if (have_old && made_ && !same_file(os_, old_.stem + ".pack", new_ + ".pack"))
      throw Error(new_ + ".pack", "is another pack of the new identity; remove one of them first (prune)");
    const std::string pack = (have_old ? old_.stem : new_) + ".pack";
    const auto bytes = static_cast<std::uint64_t>(status(os_, pack).st_size);
    if (bytes != sidecar_.spec.file_bytes())
      throw Error(pack, fmt::format("has {} bytes, expected {}", bytes, sidecar_.spec.file_bytes()));
  }

  void lock(StoreLocks& locks) override { take_locks(os_, old_, locks); }

  void make_new(StoreLocks& locks) override {
    if (!made_) {
      locks.engine.push_back(File::open_write(os_, new_ + ".lock"));
      take_lock(os_, locks.engine.back());
      try {
        write_texts();
        link_file(os_, old_.stem + ".pack", new_ + ".pack");
      } catch (...) {
        quietly([&] {
          for (const char* suffix : {".json", ".pack.manifest.json", ".lock"})
            remove_file(os_, new_ + suffix);
        });
        throw;
      }
    }
    sync_dir(os_, parent_of(new_));  // also where it was made before
  }

  void remove_old() override { remove_pack(os_, old_.stem); }

 private:
  // Sidecar and manifest; the lock file's name gets durable with theirs.
  void write_texts() const {
    const std::string pack = name_of(new_) + ".pack";
    const std::string manifest =
        manifest_under(os_, old_.manifest_path(), sidecar_.spec.ckpt_id, [&](Manifest& all) {
          for (FileEntry& file : all.files) file.path = pack;
        });
    if (!manifest.empty()) write_atomically(os_, new_ + ".pack.manifest.json", manifest);
    write_atomically(os_, new_ + ".json", format::sidecar_json(sidecar_.spec, sidecar_.layer_keys));
  }

  Os& os_;
  const FoundPack& old_;
  format::Sidecar sidecar_;
  std::string new_;
  bool made_ = false;
};

// What an earlier run may have left under the old identity of a cache that has the new one.
void remove_leftovers(Os& os, const std::string& root, format::CacheMeta meta, const std::string& from) {
  meta.ckpt_id = from;
  remove_cache(os, join(root, format::cache_directory(meta)) + ".tmp");
}

[[noreturn]] void refuse_nothing(const RekeyRequest& request, const Store& store) {
  std::vector<std::string> found;
  for (const FoundIdentity& identity : identities(store)) found.push_back(describe(identity));
  throw Error(request.planescache.empty() ? request.store : request.planescache,
              fmt::format("nothing here has the identity '{}'; found: {}", request.from,
                          found.empty() ? "none" : fmt::format("{}", fmt::join(found, ", "))));
}

}  // namespace

RekeyReport rekey(const Context& context, const RekeyRequest& request) {
  Os& os = context.os;
  const auto refuse = [](const char* why) { throw Error(ErrorCode::usage, "", why); };
  if (request.planescache.empty() && request.store.empty()) refuse("give --planescache, --store or both");
  if (request.to.empty()) refuse("the new identity is empty");
  if (request.from == request.to) refuse("the old and the new identity are the same");

  const Store store = scan_store(os, request.planescache, request.store);
  // A rank that cannot be read may be of this identity, too, and would be left behind alone.
  const auto refuse_unreadable = [](const std::string& path, const std::string& problem) {
    if (problem.starts_with("meta.json: ") || problem.starts_with("sidecar: "))
      throw Error(path, problem + "; whose it is cannot be told: repair it or move it away first");
  };
  for (const FoundCache& cache : store.caches) refuse_unreadable(cache.path, cache.problem);
  for (const FoundPack& pack : store.packs) refuse_unreadable(pack.stem, pack.problem);

  RekeyReport report;
  std::vector<std::unique_ptr<Item>> items;
  std::vector<const FoundCache*> finished;
  for (const FoundCache& cache : store.caches) {
    if (!cache.meta) continue;
    if (cache.meta->ckpt_id == request.from)
      items.push_back(std::make_unique<CacheItem>(os, store.root, cache, request.to));
    else if (cache.meta->ckpt_id == request.to)
      finished.push_back(&cache);
  }
  for (const FoundPack& pack : store.packs) {
    if (!pack.sidecar) continue;
    if (pack.sidecar->spec.ckpt_id == request.from)
      items.push_back(std::make_unique<PackItem>(os, store.directory, pack, request.to));
  }
  for (const std::unique_ptr<Item>& item : items) report.moved.push_back(item->paths());
  const auto is_moved = [&](const std::string& path) {
    return std::any_of(report.moved.begin(), report.moved.end(),
                       [&](const auto& item) { return item.to == path; });
  };
  for (const FoundCache* cache : finished)
    if (!is_moved(cache->path)) report.already.push_back(cache->path);
  for (const FoundPack& pack : store.packs)
    if (pack.sidecar && pack.sidecar->spec.ckpt_id == request.to && !is_moved(pack.stem))
      report.already.push_back(pack.stem);
  if (report.moved.empty() && report.already.empty()) refuse_nothing(request, store);

  for (const std::unique_ptr<Item>& item : items) item->check();
  if (request.dry_run) return report;
  StoreLocks locks;
  for (const std::unique_ptr<Item>& item : items) item->lock(locks);
  for (const std::unique_ptr<Item>& item : items) item->check();  // a build may have ended since
  for (const std::unique_ptr<Item>& item : items) {
    context.check_stop();
    item->make_new(locks);
  }
  // From here on the new identity is whole everywhere.
  for (const std::unique_ptr<Item>& item : items) item->remove_old();
  for (const FoundCache* cache : finished) remove_leftovers(os, store.root, *cache->meta, request.from);
  remove_stray_locks(os, store.directory);
  return report;
}

}  // namespace planesmith
