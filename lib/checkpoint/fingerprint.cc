#include "checkpoint/fingerprint.h"

#include <algorithm>
#include <set>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/stream.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kBlocks = 64, kBlock = 4 * kKiB;
constexpr std::uint64_t kLengthBytes = 8;  // in front of a safetensors header

struct ShardDigest {
  std::uint64_t size = 0;
  Sha256Digest header{}, data{};
};

ShardDigest digest_of(const Context& context, const Shard& shard) {
  const File file = File::open_read(context.os, shard.path);
  ShardDigest out;
  out.size = file.size();
  std::vector<std::uint8_t> buffer(kPiece);
  Sha256 header;
  const std::uint64_t data_begin = kLengthBytes + shard.header_bytes;
  for (std::uint64_t at = 0; at < data_begin; at += kPiece) {
    context.check_stop();
    const Bytes piece = Bytes(buffer).first(std::min(kPiece, data_begin - at));
    file.read(piece, at);
    header.update(piece);
  }
  out.header = header.finish();
  Sha256 data;
  const std::uint64_t bytes = out.size - data_begin;
  const bool all = bytes <= kBlocks * kBlock;
  const std::uint64_t block = all ? bytes : kBlock;
  for (std::uint64_t i = 0; i < (all ? 1 : kBlocks); ++i) {
    const Bytes piece = Bytes(buffer).first(block);
    file.read(piece, data_begin + (all ? 0 : i * (bytes - kBlock) / (kBlocks - 1)));
    data.update(piece);
  }
  out.data = data.finish();
  return out;
}

}  // namespace

std::string source_fingerprint(const Context& context, const Checkpoint& checkpoint, const Model& model) {
  std::set<std::uint32_t> numbers;  // the shards are sorted by name
  for (const SparseLayer& layer : model.layers) {
    if (layer.index >= model.geometry.layers) continue;  // a drafter's block
    for (const Expert& expert : layer.experts)
      for (const ExpertTensors& tensors : expert)
        for (const Tensor* tensor : {tensors.weight, tensors.scale, tensors.scale_2})
          if (tensor != nullptr) numbers.insert(tensor->shard);
  }
  const std::vector<std::uint32_t> shards(numbers.begin(), numbers.end());
  std::vector<ShardDigest> digests(shards.size());
  parallel_for(shards.size(), context.threads,
               [&](std::size_t i, int) { digests[i] = digest_of(context, checkpoint.shards()[shards[i]]); });
  using namespace std::string_view_literals;
  Sha256 sha;
  sha.update("planesmith-source-v1\0"sv);
  for (const ShardDigest& digest : digests) {
    std::array<std::uint8_t, 8> size{};
    for (std::size_t i = 0; i < size.size(); ++i) size[i] = static_cast<std::uint8_t>(digest.size >> 8 * i);
    sha.update(size);
    sha.update(digest.header);
    sha.update(digest.data);
  }
  return hex(sha.finish());
}

std::string short_fingerprint(const std::string& fingerprint) {
  return fingerprint.empty() ? "not recorded" : fingerprint.substr(0, 16) + "...";
}

}  // namespace planesmith
