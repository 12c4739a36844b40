#include "verify/boot_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>

#include "base/file.h"
#include "base/file_status.h"
#include "base/paths.h"
#include "base/text.h"

namespace planesmith {
namespace {

class Advice {
 public:
  Advice(Os& os, const BootVerdict& verdict, const Store& store, const std::string& checkpoint)
      : os_(os),
        verdict_(verdict),
        store_(store),
        checkpoint_(checkpoint.empty() ? "CHECKPOINT" : shell_quoted(real_path(checkpoint))) {}

  std::vector<std::string> commands() {
    std::set<std::uint64_t> caches;  // ranks whose directories or drafter layers are missing
    for (const CacheVerdict& cache : verdict_.caches) {
      if (cache.hit() || !cache.unread.empty()) continue;
      const bool there = exists(os_, cache.path);
      const auto lacks = [&](const LayerVerdict& layer) { return lacks_draft(layer); };
      if (!there || std::any_of(cache.layers.begin(), cache.layers.end(), lacks)) caches.insert(cache.rank);
      if (!there || std::all_of(cache.layers.begin(), cache.layers.end(),
                                [&](const LayerVerdict& layer) { return layer.hit() || lacks(layer); }))
        continue;
      if (const auto denied = denied_in(cache); !denied.empty())
        grant(denied, "r");
      else
        repair(cache.path);
    }
    if (!caches.empty())
      build(
          "build-planescache",
          fmt::format("--out {} --fp4 {}", shell_quoted(resolved(os_, store_.root)), name(verdict_.boot.fp4)),
          caches);
    std::map<std::uint64_t, std::set<std::string>> packs;  // tiers that are missing, by rank
    for (const PackVerdict& pack : verdict_.packs) {
      if (pack.hit()) continue;
      const std::string stem = format::stem_of_pack(pack.path);
      if (const auto denied = denied_in_pack(stem); !denied.empty())
        grant(denied, "rw");
      else if (exists(os_, pack.path) || exists(os_, format::sidecar_file(stem)) ||
               exists(os_, format::pack_manifest_file(stem)))
        repair(parent_of(pack.path));
      else
        packs[pack.rank].insert(std::string(format::name(pack.tier)));
    }
    // Ranks that lack the same are one run.
    std::map<std::pair<std::string, std::set<std::string>>, std::set<std::uint64_t>> runs;
    for (const auto& [rank, tiers] : packs) runs[{store_.places.of(rank), tiers}].insert(rank);
    for (const auto& [what, ranks] : runs)
      build("build-fp4-packs",
            fmt::format("--out {} --tiers {}", shell_quoted(resolved(os_, what.first)),
                        fmt::join(what.second, ",")),
            ranks);
    return std::move(out_);
  }

 private:
  // Whether the file is there and this user may not open it so, whatever it holds.
  bool denied(const std::string& path, int mode) const {
    return exists(os_, path) && !accessible(os_, path, mode) &&
           (errno == EACCES || errno == EPERM || errno == EROFS);
  }

  // A cache may have been built without drafters, so nothing tells repair that they belong to it.
  bool lacks_draft(const LayerVerdict& layer) const {
    return layer.index >= verdict_.model->geometry.layers && !layer.parts.empty() &&
           std::none_of(layer.parts.begin(), layer.parts.end(),
                        [&](const PartVerdict& part) { return exists(os_, part.path); });
  }

  std::vector<std::string> denied_in(const CacheVerdict& cache) const {
    std::vector<std::string> out;
    if (const std::string meta = join(cache.path, format::kMetaName); denied(meta, R_OK)) out.push_back(meta);
    for (const LayerVerdict& layer : cache.layers)
      for (const PartVerdict& part : layer.parts)
        if (denied(part.path, R_OK)) out.push_back(part.path);
    return out;
  }

  // The engine opens pack and lock for reading and writing.
  std::vector<std::string> denied_in_pack(const std::string& stem) const {
    std::vector<std::string> out;
    for (const std::string& path : {format::sidecar_file(stem), format::pack_manifest_file(stem)})
      if (denied(path, R_OK)) out.push_back(path);
    for (const std::string& path : {format::pack_file(stem), format::lock_file(stem)})
      if (denied(path, R_OK | W_OK)) out.push_back(path);
    return out;
  }

  // Files in one directory that this user may not open. mode: chmod's letters. Only their owner can change
  // modes, so a command is printed only if all of them are this user's.
  void grant(std::vector<std::string> files, const std::string& mode) {
    const bool read_only = on_read_only_mount(os_, files.front());
    if (read_only && mode == "rw") {
      const std::string directory = shell_quoted(real_path(parent_of(files.front())));
      add(
          fmt::format("mount {} so that it can be written to, or copy it to where it can: the engine opens "
                      "packs for writing",
                      directory));
      return;
    }
    const auto owner = [&](const std::string& path) { return status(os_, path).st_uid; };
    const bool ours = !read_only && std::all_of(files.begin(), files.end(), [&](const std::string& path) {
      return owner(path) == geteuid();
    });
    const std::string first = owner_and_mode(status(os_, files.front()));
    constexpr std::size_t kFew = 4;
    const bool many = files.size() > kFew;
    if (many) files = {parent_of(files.front())};
    for (std::string& path : files) path = shell_quoted(real_path(path));
    if (ours)
      add(fmt::format("chmod {}u+{}{} {}", many ? "-R " : "", mode, many ? "X" : "", fmt::join(files, " ")));
    else
      add(fmt::format(
          "let the engine's user {} {}{} ({}), or check as that user: the content is not in "
          "question",
          mode == "r" ? "read" : "read and write", many ? "what is in " : "", fmt::join(files, " "), first));
  }

  void repair(const std::string& path) {
    add(fmt::format("verify-ckpt-id repair {} --checkpoint {}", shell_quoted(real_path(path)), checkpoint_));
  }

  void build(const std::string& program, const std::string& rest, const std::set<std::uint64_t>& ranks) {
    const Boot& boot = verdict_.boot;
    const std::string command =
        fmt::format("{} {} {} --ckpt-id {} --world {} --zero-mode {}{}", program, checkpoint_, rest,
                    shell_quoted(boot.ckpt_id), boot.world, name(boot.zero_mode),
                    boot.drafts.value_or(0) == 0 ? "" : fmt::format(" --drafts {}", *boot.drafts));
    if (ranks.size() == boot.world)
      add(command);
    else
      for (const std::uint64_t rank : ranks) add(fmt::format("{} --rank {}", command, rank));
  }

  void add(std::string command) {
    if (std::find(out_.begin(), out_.end(), command) == out_.end()) out_.push_back(std::move(command));
  }

  Os& os_;
  const BootVerdict& verdict_;
  const Store& store_;
  const std::string checkpoint_;
  std::vector<std::string> out_;
};

}  // namespace

std::vector<std::string> boot_advice(Os& os, const BootVerdict& verdict, const Store& store,
                                     const std::string& checkpoint) {
  const std::vector<FoundIdentity> found = identities(store);
  const bool known = std::any_of(found.begin(), found.end(), [&](const FoundIdentity& identity) {
    return identity.ckpt_id == verdict.boot.ckpt_id;
  });
  if (!known && !found.empty()) return {};
  return Advice(os, verdict, store, checkpoint).commands();
}

}  // namespace planesmith
