// Whether files are what a manifest says. Nothing is ever written where they are.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "manifest/make_manifest.h"
#include "manifest/manifest.h"
#include "verify/subset.h"

namespace planesmith {

struct VerifyOptions {
  std::string root{};              // the directory that stands for the manifest's
  std::string manifest_path{};     // never counted as an extra file
  std::optional<Hashes> hashes{};  // none: XXH3 where it is recorded, else what is
  bool quick = false;              // presence, kind, size, meta.json and sidecars only
  bool allow_extra = false;
  // The manifest lies where it belongs: another identity is damage, and files of other owners are told.
  bool in_place = false;
  std::optional<Subset> subset{};  // names and sizes are looked at of all files
  // Contents found good in this time by an earlier run, of files that were not changed since, are not read.
  std::optional<std::chrono::seconds> since{};
};

struct Difference {
  enum class Kind { missing, extra, kind, link, size, content, unreadable, identity, listing, owner } kind;
  std::string path;
  std::string what;                   // found and expected, in words
  std::vector<std::size_t> blocks{};  // content: which block digests differ
  std::vector<BlockRange> strays{};   // content: from bytes between rows that are not zero to the next row
};
std::string_view name(Difference::Kind kind);

struct Verification {
  std::vector<Difference> differences;  // sorted by path
  std::vector<std::string> notes;
  std::uint64_t files = 0, bytes = 0;  // compared; bytes of content that was read now ...
  std::uint64_t bytes_before = 0;      // ... and by an earlier run
  std::string
      found_identity;  // of the cache or pack, where that is the only thing another manifest would change
  bool ok() const { return differences.empty(); }
};

// An interrupted run (an Error with such a code) keeps what was found good in the user's cache directory
// under `manifest_text`, the manifest's bytes, and a later one goes on from there. Errors: usage where a
// digest is asked for that the manifest does not have; the root cannot be read.
Verification verify_files(const Context& context, const Manifest& manifest, std::string_view manifest_text,
                          const VerifyOptions& options);

// Where all paths of a tree begin with one directory that `root` lacks, `root` is taken for that directory
// itself.
void fit_to_root(Os& os, Manifest& manifest, const std::string& root);

// Compares the manifest with a Hugging Face repository's listing, without a download: sizes and, where the
// manifest has no SHA-256 or the listing only git's SHA-1, digests of the files below options.root. The
// repository may hold the manifest's directory at any place.
std::vector<Difference> compare_with_listing(const Context& context, const Manifest& manifest,
                                             const std::vector<FileEntry>& listing,
                                             const VerifyOptions& options);

// What can be done about it, a sentence or a command each.
std::vector<std::string> advice(const Manifest& manifest, const Verification& result,
                                const VerifyOptions& options);

std::string to_text(const Manifest& manifest, const Verification& result, const VerifyOptions& options);
Json to_json(const Manifest& manifest, const Verification& result, const VerifyOptions& options);

}  // namespace planesmith
