// Expert weights of one value or equal to another's: samples of every expert weight find the suspects, which
// are then read whole. Shards that end in zeros.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "audit/checks.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "checkpoint/tensor_name.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kSample = 4096;  // bytes, at the start, the middle and the end
constexpr std::uint64_t kBlock = 1 << 20;
// Fewer zeros at a shard's end than this many bytes, or than a sixteenth of the file, may be data.
constexpr std::uint64_t kLeastRun = 4096, kShareOfShard = 16;

bool is_expert_weight(const Inventory& inventory, const Tensor& tensor) {
  const TensorName name = parse_tensor_name(tensor.name, inventory.layers(), tensor.shape.size());
  if (name.kind == TensorName::Kind::expert) return name.role == Role::weight;
  return name.kind == TensorName::Kind::strange_expert && name.main_layer &&
         tensor.name.ends_with(".weight_packed");
}

// Bytes of an element; 1 where several share a byte.
std::size_t width(const Tensor& tensor) {
  return std::max<std::size_t>(1, bits(tensor.dtype) / 8);
}
// Whether all elements are equal; `bytes` holds whole elements.
bool one_value(const std::vector<std::uint8_t>& bytes, std::size_t width) {
  return std::equal(bytes.begin() + static_cast<std::ptrdiff_t>(width), bytes.end(), bytes.begin());
}

// Begins with a whole element at each of its three places.
std::vector<std::uint8_t> sample(const File& file, const Tensor& tensor) {
  std::vector<std::uint8_t> bytes(std::min(tensor.size, 3 * kSample));
  if (bytes.size() < 3 * kSample) {
    file.read(bytes, tensor.offset);
    return bytes;
  }
  const Bytes all = bytes;
  file.read(all.first(kSample), tensor.offset);
  file.read(all.subspan(kSample, kSample), tensor.offset + tensor.size / 2 / width(tensor) * width(tensor));
  file.read(all.subspan(2 * kSample), tensor.offset + tensor.size - kSample);
  return bytes;
}

template <class Take>
void read_all(const Context& context, const Inventory& inventory, const Tensor& tensor, Take take) {
  const File file = File::open_read(context.os, inventory.shard_path(tensor));
  std::vector<std::uint8_t> buffer;
  for (std::uint64_t at = 0; at < tensor.size; at += kBlock) {
    context.check_stop();
    buffer.resize(std::min(kBlock, tensor.size - at));
    file.read(buffer, tensor.offset + at);
    if (!take(buffer)) return;
  }
}

bool constant(const Context& context, const Inventory& inventory, const Tensor& tensor) {
  const std::size_t each = width(tensor);
  std::vector<std::uint8_t> first;
  bool same = true;
  read_all(context, inventory, tensor, [&](const std::vector<std::uint8_t>& bytes) {
    if (first.empty()) first.assign(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(each));
    return same = one_value(bytes, each) && std::equal(first.begin(), first.end(), bytes.begin());
  });
  return same;
}

std::string digest(const Context& context, const Inventory& inventory, const Tensor& tensor) {
  std::vector<Xxh3> blocks;
  read_all(context, inventory, tensor, [&](const std::vector<std::uint8_t>& bytes) {
    blocks.push_back(Xxh3::of(bytes));
    return true;
  });
  return combine(blocks).hex();
}

void check_experts_apart(const Context& context, const Inventory& inventory, Findings& findings) {
  std::vector<const Tensor*> weights;
  for (const auto& [name, tensor] : inventory.tensors)
    if (tensor.size != 0 && is_expert_weight(inventory, tensor)) weights.push_back(&tensor);
  std::map<std::string, std::vector<const Tensor*>> alike;  // by the digest of the sample
  std::vector<const Tensor*> suspicious;
  std::mutex mutex;
  parallel_for(weights.size(), context.threads, [&](std::size_t i, int) {
    context.check_stop();
    const std::vector<std::uint8_t> bytes =
        sample(File::open_read(context.os, inventory.shard_path(*weights[i])), *weights[i]);
    const std::lock_guard<std::mutex> lock(mutex);
    if (one_value(bytes, width(*weights[i])))
      suspicious.push_back(weights[i]);
    else
      alike[Xxh3::of(bytes).hex()].push_back(weights[i]);
  });
  Several of_one_value, copies;
  for (const Tensor* tensor : suspicious)
    if (constant(context, inventory, *tensor)) of_one_value.add(tensor->name);
  for (const auto& [key, tensors] : alike) {
    if (tensors.size() < 2) continue;
    std::map<std::string, std::vector<std::string>> same;
    for (const Tensor* tensor : tensors) same[digest(context, inventory, *tensor)].push_back(tensor->name);
    for (auto& [of, names] : same) {
      std::sort(names.begin(), names.end());
      for (std::size_t i = 1; i < names.size(); ++i)
        copies.add(fmt::format("{}' like '{}", names[i], names[0]));
    }
  }
  if (of_one_value)
    findings.push_back({"experts.constant", Severity::warning,
                        fmt::format("{} expert weights hold one code throughout, the first is '{}'",
                                    of_one_value.count, of_one_value.first),
                        "the expert was never written or never trained; it contributes nothing",
                        "compare with the source; where that differs, export or download the shard again"});
  if (copies)
    findings.push_back({"experts.identical", Severity::warning,
                        fmt::format("{} expert weights are byte for byte those of another, the first is '{}'",
                                    copies.count, copies.first),
                        "a merge or an export that wrote one expert twice loses the other",
                        "compare with the source, unless the model was made by copying experts"});
}

// The number of zero bytes at the end of a file.
std::uint64_t zeros_at_end(const Context& context, const std::string& path) {
  const File file = File::open_read(context.os, path);
  std::vector<std::uint8_t> buffer;
  std::uint64_t zeros = 0;
  for (std::uint64_t end = file.size(); end != 0;) {
    context.check_stop();
    buffer.resize(std::min(kBlock, end));
    file.read(buffer, end - buffer.size());
    const auto last = std::find_if(buffer.rbegin(), buffer.rend(), [](std::uint8_t b) { return b != 0; });
    zeros += static_cast<std::uint64_t>(last - buffer.rbegin());
    if (last != buffer.rend()) break;
    end -= buffer.size();
  }
  return zeros;
}

void check_ends(const Context& context, const Inventory& inventory, Findings& findings) {
  for (std::uint32_t number = 0; number < inventory.shards.size(); ++number) {
    const std::string path = inventory.path(inventory.shards[number]);
    const std::uint64_t size = static_cast<std::uint64_t>(status(context.os, path).st_size);
    const std::uint64_t zeros = zeros_at_end(context, path);
    if (zeros < kLeastRun || zeros < size / kShareOfShard) continue;
    std::uint64_t inside = 0;
    for (const auto& [name, tensor] : inventory.tensors)
      inside += tensor.shard == number && tensor.size != 0 && tensor.offset >= size - zeros;
    findings.push_back(
        {"shards.zero-tail", inside > 1 ? Severity::error : Severity::warning,
         fmt::format("the last {} of {} bytes of '{}' are zero; {} tensors are zero from end to end", zeros,
                     size, inventory.shards[number], inside),
         "an interrupted download that reserved the file's space looks like this",
         "download the shard again, or compare its SHA-256 with the repository's"});
  }
}

}  // namespace

void check_contents(const Context& context, const Inventory& inventory, Findings& findings) {
  check_experts_apart(context, inventory, findings);
  check_ends(context, inventory, findings);
}

}  // namespace planesmith
