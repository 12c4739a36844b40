// Small safetensors files for tests: from a header's text, or from a list of tensors filled with zeros.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/safetensors.h"
#include "scratch.h"

// 8 bytes of length, the header's text, the data.
inline std::string safetensors(std::string_view header, std::string_view data = "") {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> 8 * i);
  return out.append(header).append(data);
}

struct TensorSpec {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;

  std::uint64_t bytes() const {
    std::uint64_t n = planesmith::bits(planesmith::parse_dtype(dtype));
    for (const std::uint64_t side : shape) n *= side;
    return n / 8;
  }
};

// One tensor after the other, their data a hole in the file.
inline void put_safetensors(const std::string& path, const std::vector<TensorSpec>& tensors) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::uint64_t end = 0;
  for (const TensorSpec& tensor : tensors) {
    const std::uint64_t begin = end;
    end += tensor.bytes();
    header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {begin, end}}};
  }
  const std::string bytes = safetensors(header.dump());
  put_file(path, bytes);
  std::filesystem::resize_file(path, bytes.size() + end);
}
