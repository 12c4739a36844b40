#include "maintain/rekey.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "base/dir.h"
#include "base/error.h"
#include "base/file_contents.h"
#include "base/file_status.h"
#include "base/temporary.h"
#include "checkpoint/pin.h"
#include "maintain/retire.h"
#include "store/store.h"

namespace planesmith {
namespace {

void write_durably(const Dir& dir, const std::string& name, std::string_view text) {
  File file = dir.create_instead(name);
  file.write(bytes_of(text), 0);
  file.sync();
  file.close();
}

// Makes a hard link, or a copy if the file system refuses hard links and --copy was given.
void link_or_copy(const Context& context, const RekeyRequest& request, const Dir& from,
                  const std::string& name, const Dir& to, const std::string& new_name) {
  if (from.try_link(name, to, new_name)) return;
  if (!request.copy)
    throw Error(
        from.path_of(name),
        fmt::format("the file system refuses hard links here ({}); --copy copies the data", strerror(errno)));
  const File source = from.open_read(name);
  File target = to.create_instead(new_name);
  copy_contents(context, source, target);
  target.close();
}

// Whether two names lead to one file, or to files of the same content.
// Does not read files again that were compared before and are unchanged.
class SameData {
 public:
  explicit SameData(const Context& context) : context_(context) {}
  bool operator()(const Dir& a, const std::string& name_a, const Dir& b, const std::string& name_b) {
    const std::optional<struct stat> left = a.look(name_a), right = b.look(name_b);
    if (!left || !right) return false;
    if (same_file(*left, *right)) return true;
    const auto known = known_.find(name_a);
    if (known != known_.end() && unchanged(known->second.first, *left) &&
        unchanged(known->second.second, *right))
      return true;
    if (!same_contents(context_, a.open_read(name_a), b.open_read(name_b))) return false;
    known_[name_a] = {*left, *right};
    return true;
  }

 private:
  const Context& context_;
  std::map<std::string, std::pair<struct stat, struct stat>> known_;
};

// Cleans up after a failure; only that failure is reported.
void quietly(const std::function<void()>& tidy) {
  try {
    tidy();
  } catch (const Error&) {
  }
}

// A rank's directory or a pack that gets the new identity.
class Item {
 public:
  virtual ~Item() = default;
  virtual RekeyReport::Item paths() const = 0;
  virtual void check() = 0;  // Errors: it cannot be rekeyed in its current state
  virtual void lock(StoreLocks& locks) = 0;
  virtual void make_new(StoreLocks& locks) = 0;
  virtual void remove_old() = 0;
};

// The text of the manifest under the new identity; empty: it has no manifest.
std::string manifest_under(const Dir& dir, const std::string& name, const std::string& ckpt_id,
                           const std::function<void(Manifest&)>& adapt) {
  if (!dir.exists(name)) return "";
  Manifest manifest = parse_manifest(dir.read_text(name, kMostManifestBytes), dir.path_of(name));
  manifest.facts->ckpt_id = ckpt_id;
  adapt(manifest);
  return to_json(manifest);
}

class CacheItem : public Item {
 public:
  CacheItem(const Context& context, const RekeyRequest& request, const Dir& root, const FoundCache& old)
      : context_(context), request_(request), root_(root), old_(old), meta_(*old.meta) {
    meta_.ckpt_id = request.to;
    new_ = format::cache_directory(meta_);
  }

  RekeyReport::Item paths() const override { return {old_.path, root_.path_of(new_)}; }

  void check() override {
    if (!S_ISDIR(root_.status(old_.name).st_mode))
      throw Error(old_.path, "is a link to a directory; rekey the directory that it leads to");
    const Dir old = root_.open_dir(old_.name);
    data_.clear();
    for (const std::string& name : old.list()) {
      // lock() finds out whether another process holds it.
      if (LockFile::lock_of(name) == format::records_lock(format::kCacheRecords)) continue;
      if (name.starts_with(format::kCacheRecords))
        throw Error(old.path_of(name), "belongs to a build that has not finished; let it finish first");
      const mode_t mode = old.status(name).st_mode;
      if (S_ISDIR(mode))
        throw Error(old.path_of(name),
                    "is a directory, which a planes cache does not have; move it away first");
      if (S_ISLNK(mode) && name != format::kMetaName && name != format::kManifestName)
        throw Error(old.path_of(name), "is a symbolic link; put the file itself here first");
      if (name != format::kMetaName && name != format::kManifestName) data_.push_back(name);
    }
    if (!old_.note.empty())
      throw Error(old_.path, old_.note + "; verify the cache, or remove the manifest first");
    const std::optional<Dir> made = root_.find_dir(new_);
    made_ = made.has_value();
    if (!made_) return;
    for (const std::string& name : data_)
      if (!same_data_(old, name, *made, name))
        throw Error(made->path(),
                    "holds another cache of the new identity; remove one of them first (prune)");
  }

  void lock(StoreLocks& locks) override { take_cache_locks(context_, root_, old_.name, locks); }

  void make_new(StoreLocks&) override {
    if (!made_) {
      const std::string half = temporary_name(new_);
      remove_cache(root_, half);  // of an interrupted run
      const Dir directory = root_.make_dirs(half);
      try {
        fill(directory);
        root_.rename(half, new_);
      } catch (...) {
        quietly([&] { remove_cache(root_, half); });
        throw;
      }
    }
    // Also if an earlier run made it, since its names may not be durable yet.
    root_.open_dir(parent_of(new_)).sync();
    root_.open_dir(parent_of(parent_of(new_))).sync();
  }

  void remove_old() override {
    std::string going = temporary_name(old_.name);
    remove_cache(root_, going);
    if (root_.try_rename(old_.name, root_, going))
      root_.open_dir(parent_of(old_.name)).sync();
    else
      going = old_.name;  // file by file, meta.json last
    remove_cache(root_, going);
  }

 private:
  void fill(const Dir& directory) const {
    const Dir old = root_.open_dir(old_.name);
    for (const std::string& name : data_) link_or_copy(context_, request_, old, name, directory, name);
    const std::string name(format::kManifestName);
    const std::string manifest = manifest_under(old, name, meta_.ckpt_id, [](Manifest&) {});
    if (!manifest.empty()) write_durably(directory, name, manifest);
    write_durably(directory, std::string(format::kMetaName), format::meta_json(meta_));
    directory.sync();
  }

  const Context& context_;
  const RekeyRequest& request_;
  const Dir& root_;
  const FoundCache& old_;
  format::CacheMeta meta_;
  std::string new_;                // relative to the root
  std::vector<std::string> data_;  // names of the files to link
  SameData same_data_{context_};
  bool made_ = false;
};

class PackItem : public Item {
 public:
  PackItem(const Context& context, const RekeyRequest& request, const Dir& store, const FoundPack& old)
      : context_(context),
        request_(request),
        store_(store),
        old_(old),
        old_stem_(name_of(old.stem)),
        sidecar_(*old.sidecar) {
    sidecar_.spec.ckpt_id = request.to;
    new_stem_ = format::pack_stem(sidecar_.spec, old.rank, old.world);
  }

  RekeyReport::Item paths() const override { return {old_.stem, store_.path_of(new_stem_)}; }

  void check() override {
    const std::string old_pack = format::pack_file(old_stem_), new_pack = format::pack_file(new_stem_);
    if (store_.exists(format::pack_records(old_stem_)))
      throw Error(format::pack_file(old_.stem), "has a build that has not finished; let it finish first");
    if (!old_.note.empty())
      throw Error(format::pack_file(old_.stem),
                  old_.note + "; verify the pack, or remove the manifest first");
    const bool have_old = store_.exists(old_pack);
    made_ = store_.exists(new_pack);
    if (!have_old && !made_) throw Error(format::pack_file(old_.stem), "is missing");
    if (have_old && made_ && !same_data_(store_, old_pack, store_, new_pack))
      throw Error(store_.path_of(new_pack),
                  "is another pack of the new identity; remove one of them first (prune)");
    const std::string pack = have_old ? old_pack : new_pack;
    const struct stat st = store_.status(pack);
    if (S_ISLNK(st.st_mode))
      throw Error(store_.path_of(pack), "is a symbolic link; rekey the pack that it leads to");
    const auto bytes = static_cast<std::uint64_t>(st.st_size);
    if (bytes != sidecar_.spec.file_bytes())
      throw Error(store_.path_of(pack),
                  fmt::format("has {} bytes, expected {}", bytes, sidecar_.spec.file_bytes()));
  }

  void lock(StoreLocks& locks) override { take_pack_locks(context_, store_, old_stem_, locks); }

  void make_new(StoreLocks& locks) override {
    if (!made_) {
      take_engine_lock(context_, store_, format::lock_file(new_stem_), locks);
      const std::string pack = format::pack_file(new_stem_), half = temporary_name(pack);
      store_.unlink(half);  // of an interrupted run
      try {
        write_texts();
        link_or_copy(context_, request_, store_, format::pack_file(old_stem_), store_, half);
        store_.rename(half, pack);
      } catch (...) {
        quietly([&] {
          for (const std::string& name :
               {half, format::sidecar_file(new_stem_), format::pack_manifest_file(new_stem_),
                format::lock_file(new_stem_)})
            store_.unlink(name);
        });
        throw;
      }
    }
    const std::string old_heat = format::heat_file(old_stem_), new_heat = format::heat_file(new_stem_);
    if (store_.exists(old_heat) && !store_.exists(new_heat))
      link_or_copy(context_, request_, store_, old_heat, store_, new_heat);
    store_.sync();  // also if an earlier run made it
  }

  void remove_old() override { remove_pack(store_, old_stem_); }

 private:
  // Writes sidecar and manifest; this also makes the lock file's name durable.
  void write_texts() const {
    const std::string manifest = manifest_under(store_, format::pack_manifest_file(old_stem_),
                                                sidecar_.spec.ckpt_id, [&](Manifest& all) {
                                                  for (FileEntry& file : all.files)
                                                    file.path = format::pack_file(new_stem_);
                                                });
    if (!manifest.empty()) store_.write_atomically(format::pack_manifest_file(new_stem_), manifest);
    store_.write_atomically(format::sidecar_file(new_stem_),
                            format::sidecar_json(sidecar_.spec, sidecar_.layer_keys));
  }

  const Context& context_;
  const RekeyRequest& request_;
  const Dir& store_;
  const FoundPack& old_;
  const std::string old_stem_;
  std::string new_stem_;
  format::Sidecar sidecar_;
  SameData same_data_{context_};
  bool made_ = false;
};

// Removes what an earlier run may have left of a cache under the old identity.
void remove_leftovers(const Dir& root, format::CacheMeta meta, const std::string& from) {
  meta.ckpt_id = from;
  remove_cache(root, temporary_name(format::cache_directory(meta)));
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
  const auto refuse = [](const std::string& why) { throw Error(ErrorCode::usage, "", why); };
  if (request.planescache.empty() && request.store.empty()) refuse("give --planescache, --store or both");
  check_pin(request.to, "the new identity (--to)");
  if (request.from == request.to) refuse("the old and the new identity are the same");

  const Store store = scan_store(os, request.planescache, request.store);
  // An unreadable rank may have the old identity too, and would be left behind.
  const auto refuse_unreadable = [](const std::string& path, const std::string& problem) {
    if (problem.starts_with("directory: ") || problem.starts_with("meta.json: ") ||
        problem.starts_with("sidecar: "))
      throw Error(path, problem + "; its identity is unknown: repair it or move it away first");
  };
  for (const FoundCache& cache : store.caches) refuse_unreadable(cache.path, cache.problem);
  for (const FoundPack& pack : store.packs) refuse_unreadable(pack.stem, pack.problem);

  const std::optional<Dir> root = request.planescache.empty() ? std::nullopt
                                                              : Dir::find(os, request.planescache),
                           packs = request.store.empty() ? std::nullopt : Dir::find(os, request.store);
  RekeyReport report;
  std::vector<std::unique_ptr<Item>> items;
  std::vector<const FoundCache*> finished;
  for (const FoundCache& cache : store.caches) {
    if (!cache.meta) continue;
    if (cache.meta->ckpt_id == request.from)
      items.push_back(std::make_unique<CacheItem>(context, request, *root, cache));
    else if (cache.meta->ckpt_id == request.to)
      finished.push_back(&cache);
  }
  for (const FoundPack& pack : store.packs) {
    if (!pack.sidecar) continue;
    if (pack.sidecar->spec.ckpt_id == request.from)
      items.push_back(std::make_unique<PackItem>(context, request, *packs, pack));
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
  // From here on everything is complete under the new identity.
  try {
    for (const std::unique_ptr<Item>& item : items) item->remove_old();
    for (const FoundCache* cache : finished) remove_leftovers(*root, *cache->meta, request.from);
    if (packs) remove_stray_locks(context, *packs);
    locks = {};
    for (const FoundCache& cache : store.caches)
      if (cache.meta && cache.meta->ckpt_id == request.from) remove_emptied(*root, cache.name);
  } catch (const Error& error) {
    throw Error(error.path(),
                fmt::format("{}; the copy under '{}' is complete and good: run the same command again "
                            "to remove what is left under '{}'",
                            error.reason(), request.to, request.from));
  }
  return report;
}

}  // namespace planesmith
