// Reads a safetensors file's header, strictly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace planesmith {

// All dtypes of the format; those of future versions are `other`.
enum class Dtype : std::uint8_t {
  boolean,
  u8,
  i8,
  u16,
  i16,
  f16,
  bf16,
  u32,
  i32,
  f32,
  u64,
  i64,
  f64,
  c64,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f6_e2m3,
  f6_e3m2,
  f4,
  other
};
std::string_view name(Dtype dtype);        // "F8_E4M3"
Dtype parse_dtype(std::string_view text);  // unknown text: other
unsigned bits(Dtype dtype);                // per element; 0 for other

struct Tensor {
  std::string name;
  std::string dtype_text;  // only where dtype is `other`
  Dtype dtype = Dtype::other;
  std::vector<std::uint64_t> shape;  // at most kMaxRank
  std::uint32_t shard = 0;           // index into Checkpoint::shards; 0 for a lone file
  std::uint32_t described_at = 0;    // byte of the file at which its description in the header begins
  std::uint64_t offset = 0;          // of the first byte, from the start of the file
  std::uint64_t size = 0;            // bytes
};

struct SafetensorsHeader {
  std::uint64_t header_bytes = 0;  // of the JSON text; data starts at 8 + header_bytes
  std::uint64_t file_bytes = 0;
  std::vector<Tensor> tensors;  // in order of offset
  std::vector<std::pair<std::string, std::string>> metadata;
};

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxRank = 64;

// Reads and checks a whole header. Memory is a small multiple of the returned Tensors; the text is never
// held. Errors, always with file, tensor and byte:
// - a file below 8 bytes, a header above kMaxHeaderBytes or beyond the end of the file, a git-LFS pointer;
// - text that is not one JSON object in UTF-8 (white space around it is allowed), is nested too deep, or
//   repeats a key;
// - "__metadata__" that is neither an object of strings nor null;
// - a tensor without dtype, shape or data_offsets, or with a value of the wrong kind; unknown members are
//   ignored;
// - more than kMaxRank dimensions, an element or bit count that overflows (even if a later dimension is 0), a
//   bit count that does not fill whole bytes, data_offsets whose length differs from the shape's; for unknown
//   dtypes data_offsets give the length;
// - overlaps, holes, and a last tensor that does not end at the end of the file. Zero-sized tensors and any
//   order of keys are allowed.
SafetensorsHeader read_safetensors_header(const File& file);

// "[2, 3]"
std::string shape_text(const std::vector<std::uint64_t>& shape);
// The dtype as the file spells it.
std::string_view dtype_text(const Tensor& tensor);

}  // namespace planesmith
