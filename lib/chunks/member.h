// The members of a tar of chunks:
// files, directories and links, and where the tar stream has each byte of a file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace planesmith::chunks {

inline constexpr std::uint64_t kTarBlock = 512;          // headers and data begin on multiples of this
inline constexpr std::uint64_t kTarEnd = 2 * kTarBlock;  // two blocks of zeros end a tar
inline constexpr std::uint64_t kHoleBlock = 64 << 10;    // holes are maximal runs of aligned zero blocks
inline constexpr std::uint64_t kDigestBlock = 8 << 20;   // of a file, under one digest (CLI.md, "Manifests")

// A run of data in a file; between the extents of a file are zeros.
struct Extent {
  std::uint64_t offset = 0, size = 0;  // in the file
  std::uint64_t packed = 0;            // offset in the file's data in the tar, which has no holes
  bool operator==(const Extent&) const = default;
};

enum class MemberType { file, directory, symlink, hardlink };
std::string_view name(MemberType type);

struct Member {
  std::string path{};  // relative, '/' between components, none at the end
  MemberType type = MemberType::file;
  unsigned mode = 0;              // permission bits, at most 07777
  std::uint64_t size = 0;         // of a file, holes included
  std::string target{};           // symlink: its text; hardlink: the path of the linked member
  std::vector<Extent> extents{};  // of a file, ascending
  std::uint64_t offset = 0;       // in the tar stream: its first header byte
  std::uint64_t data_offset = 0;  // in the tar stream: its first data byte, or where one would be
  std::vector<Xxh3> blocks{};     // of a file: digests of its 8 MiB blocks, holes as zeros; empty: not known

  std::uint64_t data_size() const {
    return extents.empty() ? 0 : extents.back().packed + extents.back().size;
  }
  bool sparse() const { return data_size() != size; }
  std::uint64_t block_count() const { return (size + kDigestBlock - 1) / kDigestBlock; }
  // Bytes of data before this offset in the file.
  std::uint64_t packed_before(std::uint64_t file_offset) const;
  // Where the tar stream has the file's data from this offset on.
  std::uint64_t stream_offset(std::uint64_t file_offset) const {
    return data_offset + packed_before(file_offset);
  }
  std::uint64_t end() const;  // in the tar stream: after its data and their padding
};

// Adds a run of data at the end, joined with the last one if they touch.
void append_extent(std::vector<Extent>& extents, std::uint64_t offset, std::uint64_t size);

// Order of members: by path, a directory right before what is in it.
bool path_less(std::string_view a, std::string_view b);

}  // namespace planesmith::chunks
