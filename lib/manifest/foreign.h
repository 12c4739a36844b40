// Lists of files that others write, as manifests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"

namespace planesmith {

// Size of an entry whose list does not tell it.
inline constexpr std::uint64_t kUnknownSize = ~std::uint64_t{0};

// A manifest of ours, what sha256sum wrote (either of its forms), or a Hugging Face tree listing.
// Errors: none of these; paths that leave the directory; more than so much memory takes.
Manifest read_any_manifest(std::string_view text, const std::string& path, std::uint64_t memory = 2 * kGiB);

// The files of a listing as the Hugging Face hub's API gives it
// ("/api/models/<repo>/tree/<revision>?recursive=true"), saved as JSON: lfs.oid is the SHA-256, oid alone the
// git blob's SHA-1. Sorted by path.
std::vector<FileEntry> parse_hf_tree(std::string_view text, const std::string& path,
                                     std::uint64_t memory = 2 * kGiB);

}  // namespace planesmith
