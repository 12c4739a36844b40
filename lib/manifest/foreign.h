// Reads lists of files that other programs write as manifests.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "manifest/manifest.h"

namespace planesmith {

// The size of an entry whose list does not have it.
inline constexpr std::uint64_t kUnknownSize = ~std::uint64_t{0};

// Reads a manifest of ours, the output of sha256sum (either form), or a Hugging Face tree listing. Errors:
// none of these; paths that leave the directory; more than `memory` bytes are needed.
Manifest read_any_manifest(std::string_view text, const std::string& path, std::uint64_t memory = 2 * kGiB);

// The files of a listing as the Hugging Face hub's API gives it
// ("/api/models/<repo>/tree/<revision>?recursive=true"), saved as JSON:
// lfs.oid is the SHA-256, oid alone the git blob's SHA-1. Sorted by path.
std::vector<FileEntry> parse_hf_tree(std::string_view text, const std::string& path,
                                     std::uint64_t memory = 2 * kGiB);

}  // namespace planesmith
