// Compares a manifest with a Hugging Face repository's listing.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "format/file_names.h"
#include "manifest/digest_files.h"
#include "manifest/foreign.h"
#include "manifest/tree.h"
#include "verify/verify_files.h"

namespace planesmith {
namespace {

// The manifest's directory in the repository: the prefix with which most of the manifest's paths are in the
// listing.
std::string best_prefix(const std::set<std::string>& paths, const std::vector<FileEntry>& listing) {
  std::map<std::string, std::size_t> votes;
  for (const FileEntry& remote : listing) {
    for (std::size_t at = 0; at != std::string::npos;) {
      if (paths.contains(remote.path.substr(at))) ++votes[remote.path.substr(0, at)];
      const std::size_t slash = remote.path.find('/', at);
      at = slash == std::string::npos ? slash : slash + 1;
    }
  }
  const auto best = std::max_element(votes.begin(), votes.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  return best == votes.end() ? "" : best->first;
}

std::string git_sha1_of(std::string_view text) {
  GitBlobSha1 sha(text.size());
  sha.update(bytes_of(text));
  return hex(sha.finish());
}

}  // namespace

std::vector<Difference> compare_with_listing(const Context& context, const Manifest& manifest,
                                             const std::vector<FileEntry>& listing,
                                             const VerifyOptions& options) {
  std::vector<Difference> differences;
  const auto differs = [&](const std::string& path, std::string what) {
    differences.push_back({Difference::Kind::listing, path, std::move(what)});
  };
  // Add the files whose content follows from the manifest, with their digests.
  std::vector<FileEntry> files = manifest.files;
  for (const DerivedFile& derived : derived_files(manifest))
    files.push_back({.path = derived.path,
                     .size = derived.content.size(),
                     .sha256 = sha256_hex(derived.content),
                     .git_sha1 = git_sha1_of(derived.content)});
  std::set<std::string> paths;
  for (const FileEntry& file : files) paths.insert(file.path);
  const std::string prefix = best_prefix(paths, listing);
  std::map<std::string, const FileEntry*> remote_by_path;
  for (const FileEntry& remote : listing)
    if (remote.path.starts_with(prefix)) remote_by_path[remote.path.substr(prefix.size())] = &remote;

  std::vector<FileToDigest> todo;
  std::vector<std::pair<std::string, const FileEntry*>> expected;  // path, and the listing's entry
  const auto judge = [&](const std::string& path, const FileEntry& remote, const std::string& sha256,
                         const std::string& git_sha1) {
    if (!remote.sha256.empty() && remote.sha256 != sha256)
      differs(path, fmt::format("SHA-256 in the repository is {}, here {}", remote.sha256, sha256));
    if (!remote.git_sha1.empty() && remote.git_sha1 != git_sha1)
      differs(path, fmt::format("git's SHA-1 in the repository is {}, here {}", remote.git_sha1, git_sha1));
  };
  for (const FileEntry& file : files) {
    if (file.link_target) {
      differs(file.path,
              fmt::format(
                  "is recorded as a link to {}, which says nothing of its content, and a repository holds no "
                  "links; make the manifest of a copy made with cp -rlL",
                  *file.link_target));
      continue;
    }
    const auto found = remote_by_path.find(file.path);
    if (found == remote_by_path.end()) {
      differs(file.path, "is not in the repository");
      continue;
    }
    const FileEntry& remote = *found->second;
    if (file.size != kUnknownSize && file.size != remote.size) {
      differs(file.path, fmt::format("has {} bytes in the repository, {} here", remote.size, file.size));
    } else if (!(remote.sha256.empty() ? file.git_sha1 : file.sha256).empty()) {
      judge(file.path, remote, file.sha256, file.git_sha1);
    } else if (const TreeItem item = look_at(context.os, options.root, file.path);
               item.kind != TreeItem::Kind::file) {
      differs(file.path, "cannot be compared: its digest is not in the manifest, and it is not here");
    } else {
      todo.push_back({.path = join(options.root, file.path),
                      .size = static_cast<std::uint64_t>(item.status.st_size),
                      .sha256 = !remote.sha256.empty(),
                      .git_sha1 = !remote.git_sha1.empty()});
      expected.emplace_back(file.path, &remote);
    }
  }
  digest_files(context, "hashing for the comparison with the repository", todo, [&](const Digested& done) {
    const auto& [path, remote] = expected[done.file];
    if (done.failure)
      differs(path, done.failure->reason());
    else
      judge(path, *remote, done.sha256, done.git_sha1);
  });

  const bool covers_all =
      manifest.kind == ManifestKind::planescache ||
      std::find(manifest.covers.begin(), manifest.covers.end(), ".") != manifest.covers.end();
  if (covers_all && !options.allow_extra) {
    paths.insert({name_of(options.manifest_path), std::string(format::kManifestName), ".gitattributes"});
    for (const auto& [path, remote] : remote_by_path)
      if (!paths.contains(path)) differs(path, "is in the repository and not in the manifest");
  }
  std::sort(differences.begin(), differences.end(),
            [](const auto& a, const auto& b) { return a.path < b.path; });
  return differences;
}

}  // namespace planesmith
