// Reading a safetensors file's header, strictly.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace planesmith {

// All dtypes of the format, those of future versions as `other`.
enum class Dtype : std::uint8_t {
  boolean, u8, i8, u16, i16, f16, bf16, u32, i32, f32, u64, i64, f64, c64,
  f8_e4m3, f8_e5m2, f8_e8m0, f8_e4m3fnuz, f8_e5m2fnuz, f6_e2m3, f6_e3m2, f4, other
};
std::string_view name(Dtype dtype);        // "F8_E4M3"
Dtype parse_dtype(std::string_view text);  // unknown text: other
unsigned bits(Dtype dtype);                // per element; 0 for other

struct Tensor {
  std::string name;
  std::string dtype_text;             // only where dtype is `other`
  Dtype dtype = Dtype::other;
  std::vector<std::uint64_t> shape;
  std::uint32_t shard = 0;            // index into Checkpoint::shards; 0 for a lone file
  std::uint64_t offset = 0;           // of the first byte, from the start of the file
  std::uint64_t size = 0;             // bytes
};

struct SafetensorsHeader {
  std::uint64_t header_bytes = 0;     // of the JSON text; data starts at 8 + header_bytes
  std::uint64_t file_bytes = 0;
  std::vector<Tensor> tensors;        // in order of offset
  std::vector<std::pair<std::string, std::string>> metadata;
};

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

// Refuses whatever the official crate refuses, and more, naming file, tensor and byte: see safetensors.cc for the list.
SafetensorsHeader read_safetensors_header(const File& file);

}  // namespace planesmith
