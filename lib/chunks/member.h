// What a tar of chunks holds: files, directories and links, and where each byte of a file lies in the tar
// stream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"

namespace planesmith::chunks {

inline constexpr std::uint64_t kTarBlock = 512;          // headers and data begin on multiples of this
inline constexpr std::uint64_t kTarEnd = 2 * kTarBlock;  // two blocks of zeros end a tar
inline constexpr std::uint64_t kHoleBlock = 64
                                            << 10;  // holes are maximal runs of such aligned blocks of zeros
inline constexpr std::uint64_t kDigestBlock =
    8 << 20;  // bytes of a file under one digest (CLI.md, "Manifests")

// A run of data in a file; what lies between the extents of a file is zeros.
struct Extent {
  std::uint64_t offset = 0, size = 0;  // in the file
  std::uint64_t packed = 0;            // where it begins in the file's data as the tar holds it: no holes
  bool operator==(const Extent&) const = default;
};

enum class MemberType { file, directory, symlink, hardlink };
std::string_view name(MemberType type);

struct Member {
  std::string path{};  // relative, '/' between components, none at the end
  MemberType type = MemberType::file;
  unsigned mode = 0;              // permission bits, at most 07777
  std::uint64_t size = 0;         // of a file, holes included
  std::string target{};           // symlink: its text; hardlink: the path of the file it is another name of
  std::vector<Extent> extents{};  // of a file, ascending
  std::uint64_t offset = 0;       // in the tar stream: its first header byte
  std::uint64_t data_offset = 0;  // in the tar stream: its first data byte, or where one would be
  std::vector<Xxh3>
      blocks{};  // of a file: digests of its 8 MiB blocks, holes read as zeros; empty while not known

  std::uint64_t data_size() const {
    return extents.empty() ? 0 : extents.back().packed + extents.back().size;
  }
  bool sparse() const { return data_size() != size; }
  std::uint64_t block_count() const { return (size + kDigestBlock - 1) / kDigestBlock; }
  // How many bytes of data come before this place in the file.
  std::uint64_t packed_before(std::uint64_t file_offset) const;
  // Where the tar stream has the data of the file from this place on.
  std::uint64_t stream_offset(std::uint64_t file_offset) const {
    return data_offset + packed_before(file_offset);
  }
  std::uint64_t end() const;  // in the tar stream: past its data and their padding
};

// Adds a run of data behind the ones there are, joined with the last where they touch.
void append_extent(std::vector<Extent>& extents, std::uint64_t offset, std::uint64_t size);

// Order of members: by path, a directory right before what is in it.
bool path_less(std::string_view a, std::string_view b);

}  // namespace planesmith::chunks
