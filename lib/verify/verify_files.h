// Compares files with a manifest. Never writes to their directory.
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
  std::string root{};              // the directory of the manifest's files
  std::string manifest_path{};     // never counted as an extra file
  std::optional<Hashes> hashes{};  // none: XXH3 if recorded, else what is
  bool quick = false;              // only presence, kind, size, meta.json and sidecars
  bool allow_extra = false;
  // The manifest is in its proper place: another identity is damage, and files of other owners are reported.
  bool in_place = false;
  std::optional<Subset> subset{};  // names and sizes of all files are still checked
  // Skip the contents of files that an earlier run found good within this time and that have not changed.
  std::optional<std::chrono::seconds> since{};
};

struct Difference {
  enum class Kind { missing, extra, kind, link, size, content, unreadable, identity, listing, owner } kind;
  std::string path;
  std::string what;                   // found and expected, as text
  std::vector<std::size_t> blocks{};  // content: numbers of the blocks that differ
  std::vector<BlockRange> strays{};   // content: each from a non-zero byte between rows to the next row
  bool denied = false;  // unreadable: this user may not read it, which tells nothing of the content
};
std::string_view name(Difference::Kind kind);

struct Verification {
  std::vector<Difference> differences;  // sorted by path
  std::vector<std::string> notes;
  std::uint64_t files = 0, bytes = 0;  // files compared; bytes read now ...
  std::uint64_t bytes_before = 0;      // ... and by an earlier run
  std::string found_identity;          // of the cache or pack, if nothing but the identity differs
  bool ok() const { return differences.empty(); }
};

// An interrupted run (an Error with such a code) stores what it found good in the user's cache directory,
// keyed by `manifest_text`, the manifest's bytes; a later run continues from there. Errors: a digest was
// asked for that the manifest lacks (usage); the root cannot be read.
Verification verify_files(const Context& context, const Manifest& manifest, std::string_view manifest_text,
                          const VerifyOptions& options);

// If all paths of a tree begin with one directory and `root` does not contain it, takes `root` for that
// directory.
void fit_to_root(Os& os, Manifest& manifest, const std::string& root);

// Compares the manifest with a Hugging Face repository's listing, without a download: sizes and digests.
// Files below options.root are hashed where the manifest has no SHA-256 or the listing only git's SHA-1. The
// manifest's directory may be anywhere in the repository.
std::vector<Difference> compare_with_listing(const Context& context, const Manifest& manifest,
                                             const std::vector<FileEntry>& listing,
                                             const VerifyOptions& options);

// What to do about the differences: a sentence or a command each.
std::vector<std::string> advice(const Manifest& manifest, const Verification& result,
                                const VerifyOptions& options);

std::string to_text(const Manifest& manifest, const Verification& result, const VerifyOptions& options);
Json to_json(const Manifest& manifest, const Verification& result, const VerifyOptions& options);

}  // namespace planesmith
