// Routing captures as the engine writes them: NumPy arrays of rows [tick, layer, expert].
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace planesmith::synthetic {

using TraceRow = std::array<std::int64_t, 3>;  // tick, layer, expert

struct NpyForm {
  bool fortran = false, wide = false;
};

inline std::string npy_bytes(const std::vector<TraceRow>& rows, NpyForm form = {}) {
  std::string header = std::string("{'descr': '") + (form.wide ? "<i8" : "<i4") +
                       "', 'fortran_order': " + (form.fortran ? "True" : "False") + ", 'shape': (" +
                       std::to_string(rows.size()) + ", 3), }";
  header.resize((10 + header.size() + 1 + 63) / 64 * 64 - 10, ' ');
  header.back() = '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  const auto put = [&](std::int64_t value) {
    char bytes[8];
    std::memcpy(bytes, &value, 8);
    out.append(bytes, form.wide ? 8 : 4);
  };
  if (form.fortran)
    for (std::size_t c = 0; c < 3; ++c)
      for (const TraceRow& row : rows) put(row[c]);
  else
    for (const TraceRow& row : rows)
      for (const std::int64_t value : row) put(value);
  return out;
}

}  // namespace planesmith::synthetic
