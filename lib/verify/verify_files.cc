#include "verify/verify_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "format/file_names.h"
#include "manifest/digest_files.h"
#include "manifest/foreign.h"
#include "manifest/tree.h"
#include "verify/candidate.h"
#include "verify/other_identity.h"
#include "verify/verified_lately.h"
#include "verify/verify_record.h"

namespace planesmith {
namespace {

using Kind = Difference::Kind;

constexpr std::uint64_t kMaxDerived = 16 << 20;

class Verifier {
 public:
  Verifier(const Context& context, const Manifest& manifest, std::string_view text,
           const VerifyOptions& options)
      : context_(context),
        manifest_(manifest),
        options_(options),
        record_(context, options.root,
                fmt::format("{}\n{}\n{}", real_path(options.root),
                            options.hashes ? 1 + options.hashes->xxh3 + 2 * options.hashes->sha256 : 0,
                            sha256_hex(text)) +
                    (options.subset ? fmt::format("\n{}/{} {}%", options.subset->part, options.subset->of,
                                                  options.subset->percent)
                                    : "")),
        verified_(context.os, options.root, text) {
    if (options.in_place) directory_ = status(context.os, options.root);
  }

  Verification run() {
    for (const FileEntry& entry : manifest_.files) look(entry);
    for (const DerivedFile& derived : derived_files(manifest_)) check_derived(derived);
    if (!options_.allow_extra) find_extras();
    if (!options_.quick) check_contents();
    std::stable_sort(result_.differences.begin(), result_.differences.end(),
                     [](const Difference& a, const Difference& b) { return a.path < b.path; });
    for (const auto& [what, files] : remarks_)
      result_.notes.push_back(
          fmt::format("{} files, the first of them {}: {}", files.first, files.second, what));
    return std::move(result_);
  }

 private:
  void differs(Kind kind, const std::string& path, std::string what) {
    result_.differences.push_back({kind, path, std::move(what)});
  }

  // Merges the same remark on many files into one note.
  void remark(const std::string& what, const std::string& path) {
    auto& [count, first] = remarks_[what];
    if (count++ == 0) first = path;
  }

  // Checks presence, kind and size; a file that passes becomes a candidate.
  void look(const FileEntry& entry) {
    ++result_.files;
    const TreeItem item = look_at(context_.os, options_.root, entry.path);
    using enum TreeItem::Kind;
    const char* const expected = entry.link_target ? "a link" : "a file";
    if (item.kind == missing)
      return differs(Kind::missing, entry.path, fmt::format("{} was expected", expected));
    if (item.kind == behind_link)
      return differs(Kind::link, entry.path,
                     fmt::format("is below the link {}, which is not followed", item.link_target));
    if (item.kind == link && entry.link_target) {
      if (item.link_target != *entry.link_target)
        differs(Kind::link, entry.path,
                fmt::format("leads to {}, {} was expected", item.link_target, *entry.link_target));
      else if (!has_target(manifest_, entry))
        remark("a link; it is the same, but what it leads to is not in the manifest and was not read",
               entry.path);
      return;
    }
    if (item.kind == link)
      return differs(
          Kind::link, entry.path,
          fmt::format("is a link to {}, a file was expected; links are not followed", item.link_target));
    if (item.kind != file || entry.link_target)
      return differs(Kind::kind, entry.path,
                     fmt::format("is {}, {} was expected",
                                 item.kind == file        ? "a file"
                                 : item.kind == directory ? "a directory"
                                                          : "a device, FIFO or socket",
                                 expected));
    look_at_owner(entry.path, item.status);
    const auto size = static_cast<std::uint64_t>(item.status.st_size);
    if (entry.size != kUnknownSize && size != entry.size)
      return differs(Kind::size, entry.path, fmt::format("has {} bytes, {} were expected", size, entry.size));
    if (!options_.quick) add_candidate(entry, item.status);
  }

  // Reports files of another owner, who could change them. Directories that a group may write to are exempt.
  void look_at_owner(const std::string& path, const struct stat& status) {
    if (!directory_ || (directory_->st_mode & (S_IWGRP | S_IWOTH)) != 0) return;
    if (status.st_uid == directory_->st_uid || status.st_uid == geteuid() || status.st_uid == 0) return;
    differs(Kind::owner, path,
            fmt::format("belongs to user {}, its directory to {}", status.st_uid, directory_->st_uid));
  }

  void add_candidate(const FileEntry& entry, const struct stat& status) {
    Candidate candidate{.entry = &entry, .status = status};
    const bool has_xxh3 = entry.xxh3.has_value(), has_sha256 = !entry.sha256.empty();
    if (options_.hashes) {
      candidate.xxh3 = options_.hashes->xxh3 && has_xxh3;
      candidate.sha256 = options_.hashes->sha256 && has_sha256;
      const char* const lacks = options_.hashes->xxh3 && !has_xxh3       ? "XXH3"
                                : options_.hashes->sha256 && !has_sha256 ? "SHA-256"
                                                                         : nullptr;
      if (lacks && !candidate.xxh3 && !candidate.sha256)
        throw Error(ErrorCode::usage, entry.path,
                    fmt::format("the manifest has no {} of it; choose another --hash", lacks));
      if (lacks) remark(fmt::format("no {} is recorded; the other digest was compared", lacks), entry.path);
    } else {
      candidate.xxh3 = has_xxh3;
      candidate.sha256 = !has_xxh3 && has_sha256;
      candidate.git_sha1 = !has_xxh3 && !has_sha256 && !entry.git_sha1.empty();
    }
    if (candidate.xxh3 || candidate.sha256 || candidate.git_sha1)
      candidates_.push_back(std::move(candidate));
    else
      remark("no digest is recorded; only the size was compared", entry.path);
  }

  void check_derived(const DerivedFile& derived) {
    ++result_.files;
    const std::string full = join(options_.root, derived.path);
    const TreeItem item = look_at(context_.os, options_.root, derived.path);
    if (item.kind == TreeItem::Kind::missing)
      return differs(Kind::missing, derived.path, "a file was expected");
    if (item.kind != TreeItem::Kind::file) return differs(Kind::kind, derived.path, "is not a file");
    look_at_owner(derived.path, item.status);
    std::string found;
    try {
      found = read_text(context_.os, full, kMaxDerived);
    } catch (const Error& error) {
      differs(Kind::unreadable, derived.path, error.reason());
      result_.differences.back().denied = error.label() == "permission";
      return;
    }
    if (found != derived.content)
      differs(Kind::content, derived.path,
              fmt::format("is {}; {} was expected, to the last byte", found, derived.content));
  }

  // Files that every clone of a repository has, whatever its content was listed from.
  static bool is_for_git(const std::string& path) {
    const std::string name = name_of(path);
    return name == ".gitattributes" || name == ".gitignore" || name == ".gitmodules";
  }

  void find_extras() {
    std::vector<std::string> covers = manifest_.covers;
    if (manifest_.kind == ManifestKind::planescache) covers = {"."};
    if (covers.empty()) return;
    std::set<std::string> known = {name_of(options_.manifest_path)};
    if (manifest_.kind == ManifestKind::planescache) known.emplace(format::kManifestName);
    for (const FileEntry& entry : manifest_.files) known.insert(entry.path);
    for (const DerivedFile& derived : derived_files(manifest_)) known.insert(derived.path);
    const std::string real_root = real_path(options_.root);
    const std::string own = options_.manifest_path.empty() ? "" : real_path(options_.manifest_path);
    for (const std::string& cover : covers)
      for (const TreeItem& item : walk(context_, options_.root, cover))
        if (known.insert(item.path).second && join(real_root, item.path) != own && !is_for_git(item.path))
          differs(Kind::extra, item.path, "is not in the manifest");
  }

  void check_contents() {
    std::vector<FileToDigest> todo;
    std::vector<std::size_t> number;  // index of the candidate of each file
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      Candidate& candidate = candidates_[i];
      FileToDigest file{.path = join(options_.root, candidate.entry->path),
                        .size = static_cast<std::uint64_t>(candidate.status.st_size),
                        .sha256 = candidate.sha256,
                        .git_sha1 = candidate.git_sha1};
      if (candidate.xxh3) {
        file.ranges = block_ranges(manifest_, *candidate.entry);
        file.zero_gaps = manifest_.kind == ManifestKind::pack;
        candidate.blocks = file.ranges.size();
      }
      if (options_.since && verified_.holds(candidate.entry->path, candidate.status, *options_.since)) {
        result_.bytes_before += file.size;
        continue;
      }
      file.runs = still_to_do(candidate, file);
      if (file.runs.empty() && !file.zero_gaps) continue;
      todo.push_back(std::move(file));
      number.push_back(i);
    }
    try {
      digest_files(context_, "verifying", todo,
                   [&](const Digested& done) { judge(candidates_[number[done.file]], done); });
    } catch (...) {
      record_.save();
      throw;
    }
    record_.drop();
    for (const Candidate& candidate : candidates_)
      for (Difference& difference : candidate.differences(manifest_))
        result_.differences.push_back(std::move(difference));
    if (options_.subset || !record_.kept()) return;
    for (const std::size_t i : number)
      verified_.note(candidates_[i].entry->path, candidates_[i].status, candidates_[i].good());
    verified_.save();
  }

  // Reduces runs of blocks to the requested subset.
  VerifyRecord::Runs in_subset(const VerifyRecord::Runs& runs, bool whole) {
    constexpr std::size_t kTogether = 8;  // blocks that are chosen together
    if (!options_.subset) return runs;
    if (whole) return options_.subset->holds(subset_number_++) ? runs : VerifyRecord::Runs();
    VerifyRecord::Runs out;
    for (const auto& [first, last] : runs)
      for (std::size_t at = first; at < last; at += kTogether)
        if (options_.subset->holds(subset_number_++)) out.emplace_back(at, std::min(at + kTogether, last));
    return out;
  }

  // The blocks that no interrupted run found good. With a digest of the whole file it is all or nothing.
  VerifyRecord::Runs still_to_do(const Candidate& candidate, const FileToDigest& file) {
    VerifyRecord::Runs runs;
    std::uint64_t left = file.size;
    std::size_t at = 0;
    for (const auto& [first, last] : record_.good(candidate.entry->path, candidate.status)) {
      if (first < at || last <= first || last > candidate.blocks) break;  // not written by us
      if (at < first) runs.emplace_back(at, first);
      at = last;
      if (candidate.xxh3 && !candidate.sha256)
        for (std::size_t block = first; block < last; ++block) left -= file.ranges[block].size;
    }
    if (at < candidate.blocks) runs.emplace_back(at, candidate.blocks);
    if (candidate.blocks != 0 && runs.empty()) left = 0;
    const bool whole = candidate.whole();
    if (whole && !runs.empty()) {
      runs = {{0, candidate.blocks}};
      left = file.size;
    }
    if (options_.subset) {
      runs = in_subset(runs, whole);
      left = whole && !runs.empty() ? file.size : 0;
      if (!whole)
        for (const auto& [first, last] : runs)
          for (std::size_t block = first; block < last; ++block) left += file.ranges[block].size;
      result_.bytes += left;
      return runs;
    }
    result_.bytes += left;
    result_.bytes_before += file.size - left;
    return runs;
  }

  void judge(Candidate& candidate, const Digested& done) {
    if (!candidate.take(manifest_, done)) return;
    const std::string& path = candidate.entry->path;
    if (candidate.whole())
      record_.add(path, candidate.status, 0, candidate.blocks);
    else if (!done.blocks.empty())
      record_.add(path, candidate.status, done.first_block, done.first_block + done.blocks.size());
  }

  const Context& context_;
  const Manifest& manifest_;
  const VerifyOptions& options_;
  VerifyRecord record_;
  VerifiedLately verified_;
  std::optional<struct stat> directory_{};  // its owner should own the files
  std::uint64_t subset_number_ = 0;
  std::vector<Candidate> candidates_;
  std::map<std::string, std::pair<std::uint64_t, std::string>> remarks_;
  Verification result_;
};

}  // namespace

std::string_view name(Difference::Kind kind) {
  switch (kind) {
    case Kind::missing:
      return "missing";
    case Kind::extra:
      return "extra";
    case Kind::kind:
      return "kind";
    case Kind::link:
      return "link";
    case Kind::size:
      return "size";
    case Kind::content:
      return "content";
    case Kind::unreadable:
      return "unreadable";
    case Kind::identity:
      return "identity";
    case Kind::listing:
      return "listing";
    case Kind::owner:
      return "owner";
  }
  return "";
}

Verification verify_files(const Context& context, const Manifest& manifest, std::string_view manifest_text,
                          const VerifyOptions& options) {
  if (!S_ISDIR(status(context.os, options.root).st_mode)) throw Error(options.root, "is not a directory");
  const std::optional<std::string> other =
      options.in_place ? std::nullopt : other_identity(context.os, manifest, options.root);
  if (!other) return Verifier(context, manifest, manifest_text, options).run();
  const Manifest local = under_identity(manifest, *other);
  Verification result = Verifier(context, local, manifest_text, options).run();
  result.found_identity = *other;
  result.differences.insert(
      result.differences.begin(),
      {Kind::identity, derived_files(local).at(0).path,
       fmt::format("is of identity '{}', the manifest of '{}'", *other, manifest.facts->ckpt_id)});
  return result;
}

void fit_to_root(Os& os, Manifest& manifest, const std::string& root) {
  if (manifest.kind != ManifestKind::tree || manifest.files.empty()) return;
  const std::string& first = manifest.files[0].path;
  const std::string top = first.substr(0, first.find('/')), prefix = top + "/";
  const bool all = std::all_of(manifest.files.begin(), manifest.files.end(),
                               [&](const FileEntry& file) { return file.path.starts_with(prefix); });
  if (!all || look_at(os, root, top).kind != TreeItem::Kind::missing) return;
  const bool fits = std::any_of(manifest.files.begin(), manifest.files.end(), [&](const FileEntry& file) {
    return look_at(os, root, file.path.substr(prefix.size())).kind != TreeItem::Kind::missing;
  });
  if (!fits) return;
  for (FileEntry& file : manifest.files) file.path.erase(0, prefix.size());
  std::vector<std::string> covers;
  for (const std::string& cover : manifest.covers) {
    if (cover == "." || cover == top)
      covers.push_back(".");
    else if (cover.starts_with(prefix))
      covers.push_back(cover.substr(prefix.size()));
  }
  manifest.covers = covers;
}

}  // namespace planesmith
