#include "verify/boot_advice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/file.h"
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
    std::set<std::uint64_t> caches;  // ranks whose directories are missing
    for (const CacheVerdict& cache : verdict_.caches) {
      if (cache.hit() || !cache.unread.empty()) continue;
      if (exists(os_, cache.path))
        repair(cache.path);
      else
        caches.insert(cache.rank);
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
      if (exists(os_, pack.path) || exists(os_, format::sidecar_file(stem)) ||
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
