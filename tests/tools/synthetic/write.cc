#include "synthetic/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/parallel.h"

namespace planesmith::synthetic {
namespace {

constexpr std::uint64_t kPiece = 4 * kMiB;

// Bytes after the header.
std::uint64_t data_bytes(const Json& header) {
  std::uint64_t end = 0;
  for (const auto& [name, entry] : header.items())
    if (name != "__metadata__") end = std::max(end, entry.at("data_offsets").at(1).get<std::uint64_t>());
  return end;
}

ShardHeader shard_of(std::string name, std::vector<Tensor> tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const Tensor& a, const Tensor& b) {
    return std::pair(bits(b.dtype), std::string_view(a.name)) <
           std::pair(bits(a.dtype), std::string_view(b.name));
  });
  nlohmann::ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
  std::uint64_t at = 0;
  for (const Tensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", planesmith::name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {at, at + tensor.size}}};
    at += tensor.size;
  }
  return {std::move(name), header.dump()};
}

}  // namespace

std::vector<ShardHeader> cut_into_shards(const std::vector<Tensor>& tensors, std::uint64_t count) {
  std::uint64_t total = 0, at = 0;
  for (const Tensor& tensor : tensors) total += tensor.size;
  std::vector<std::vector<Tensor>> parts(count);
  for (const Tensor& tensor : tensors) {
    parts[std::min(count - 1, at * count / total)].push_back(tensor);
    at += tensor.size;
  }
  std::vector<ShardHeader> shards;
  for (std::uint64_t i = 0; i < count; ++i)
    shards.push_back(
        shard_of(fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count), std::move(parts[i])));
  return shards;
}

std::vector<ShardHeader> kept_headers(const Context& context, const std::string& directory) {
  std::vector<ShardHeader> shards;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    const std::string path = entry.path().string();
    if (entry.is_regular_file() && path.ends_with(".safetensors.json"))
      shards.push_back({entry.path().stem().string(), read_text(context.os, path, kMaxHeaderBytes)});
  }
  if (shards.empty()) throw Error(directory, "no *.safetensors.json in it");
  std::sort(shards.begin(), shards.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return shards;
}

std::uint64_t write_shards(const Context& context, const std::string& directory,
                           const std::vector<ShardHeader>& shards) {
  std::uint64_t total = 0;
  for (const ShardHeader& shard : shards) {
    std::string text = shard.json;
    text.resize(round_up(text.size(), 8), ' ');
    std::string length(8, '\0');
    for (int i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> 8 * i & 0xff);
    const std::uint64_t bytes = data_bytes(parse_json(shard.json, shard.name));
    File file = File::create(context.os, join(directory, shard.name));
    file.write(bytes_of(length + text), 0);
    file.truncate(8 + text.size() + bytes);
    file.close();
    total += bytes;
  }
  return total;
}

std::string index_json(const std::vector<ShardHeader>& shards, std::uint64_t total_bytes) {
  Json index = {{"metadata", {{"total_size", total_bytes}}}, {"weight_map", Json::object()}};
  for (const ShardHeader& shard : shards) {
    const Json header = parse_json(shard.json, shard.name);
    for (const auto& [name, entry] : header.items())
      if (name != "__metadata__") index["weight_map"][name] = shard.name;
  }
  return pretty(index);
}

std::uint64_t fill_shards(const Context& context, const std::string& directory,
                          const std::vector<ShardHeader>& shards, const Weights& weights,
                          const std::function<bool(const Tensor&)>& wanted) {
  struct Piece {
    std::size_t shard;
    const Tensor* tensor;
    std::uint64_t begin, size;
  };
  std::vector<File> files;
  std::vector<SafetensorsHeader> headers;
  headers.reserve(shards.size());  // pieces point into them
  std::vector<Piece> pieces;
  std::uint64_t total = 0;
  for (std::size_t s = 0; s < shards.size(); ++s) {
    files.push_back(File::open_write(context.os, join(directory, shards[s].name)));
    headers.push_back(read_safetensors_header(files.back()));
    for (const Tensor& tensor : headers.back().tensors) {
      if (!wanted(tensor)) continue;
      for (std::uint64_t at = 0; at < tensor.size; at += kPiece)
        pieces.push_back({s, &tensor, at, std::min(kPiece, tensor.size - at)});
      total += tensor.size;
    }
  }
  context.progress.begin("filling", total);
  std::vector<std::vector<std::uint8_t>> buffers(static_cast<std::size_t>(context.threads));
  parallel_for(pieces.size(), context.threads, [&](std::size_t i, int worker) {
    context.check_stop();
    const Piece& piece = pieces[i];
    std::vector<std::uint8_t>& buffer = buffers[static_cast<std::size_t>(worker)];
    buffer.assign(piece.size, 0);
    weights.fill(*piece.tensor, piece.begin, buffer);
    files[piece.shard].write(buffer, piece.tensor->offset + piece.begin);
    context.progress.advance(piece.size);
  });
  for (File& file : files) file.close();
  context.progress.end();
  return total;
}

}  // namespace planesmith::synthetic
