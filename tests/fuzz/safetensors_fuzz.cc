// Input: the front of a safetensors file, 8 bytes of length and the header. The data is a hole as long as the
// largest number in the header's text that fits, so that most mutations of a good header stay near a good
// file.
#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "memory_os.h"
#include "require.h"

using namespace planesmith;

namespace {

constexpr std::uint64_t kMostData = std::uint64_t{1} << 40;

std::uint64_t largest_number(std::string_view text) {
  std::uint64_t largest = 0, number = 0;
  for (const char c : text) {
    number = c >= '0' && c <= '9' && number < kMostData ? 10 * number + static_cast<unsigned>(c - '0') : 0;
    if (number <= kMostData) largest = std::max(largest, number);
  }
  return largest;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  MemoryOs os;
  os.nodes["x"] = {input, input.size() + largest_number(input.substr(std::min<std::size_t>(size, 8)))};
  try {
    const File file = File::open_read(os, "x");
    const SafetensorsHeader header = read_safetensors_header(file);
    std::uint64_t end = 8 + header.header_bytes;
    for (const Tensor& tensor : header.tensors) {
      require(tensor.offset == end && tensor.described_at > 8 && tensor.described_at < size);
      require(tensor.shape.size() <= kMaxRank);
      end += tensor.size;
    }
    require(end == header.file_bytes);
  } catch (const Error& error) {
    require(error.path() == "x" && error.offset().has_value() && std::string_view(error.what()).size() > 0);
  }
  return 0;
}
