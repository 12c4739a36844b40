// repack-experts build and quantize against a plain copy of the same files, both on two threads, from and to
// memory, where neither waits for a disk: processor time.
#include <fmt/format.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/parallel.h"
#include "bench/bench.h"
#include "repack/repack.h"
#include "rewrite/quantize.h"

namespace planesmith::bench {
namespace {

constexpr int kThreads = 2;
constexpr std::uint64_t kExperts = 32, kHidden = 4096,
                        kInner = 2048;  // of DeepSeek-V4-Flash's size: 12.75 MiB each

void make_checkpoint(const std::string& directory) {
  std::filesystem::create_directory(directory);
  std::ofstream(directory + "/config.json") << fmt::format(
      R"({{"num_hidden_layers": 1, "n_routed_experts": {}, "hidden_size": {}, "moe_intermediate_size": {}}})",
      kExperts, kHidden, kInner);
  nlohmann::ordered_json header;
  std::uint64_t bytes = 0;
  const auto add = [&](const std::string& name, const char* dtype, std::uint64_t rows, std::uint64_t cols) {
    header[name] = {
        {"dtype", dtype}, {"shape", {rows, cols}}, {"data_offsets", {bytes, bytes + rows * cols}}};
    bytes += rows * cols;
  };
  for (std::uint64_t e = 0; e < kExperts; ++e)
    for (const char* projection : {"w1", "w2", "w3"}) {
      const bool down = projection[1] == '2';
      const std::uint64_t rows = down ? kHidden : kInner, cols = down ? kInner : kHidden;
      const std::string stem = fmt::format("layers.0.ffn.experts.{}.{}", e, projection);
      add(stem + ".weight", "I8", rows, cols / 2);
      add(stem + ".scale", "F8_E8M0", rows, cols / 32);
    }
  const std::string text = header.dump();
  std::ofstream file(directory + "/model.safetensors", std::ios::binary);
  for (int i = 0; i < 8; ++i) file.put(static_cast<char>(text.size() >> 8 * i));
  file << text;
  // Magnitudes as often as in DeepSeek-V4-Flash: how many of 128.
  constexpr int kShares[8] = {15, 27, 21, 16, 18, 14, 11, 6};
  std::uint8_t nibble_of[256];
  int at = 0;
  for (unsigned n = 0; n < 16; ++n)
    for (int i = 0; i < kShares[n & 7]; ++i) nibble_of[at++] = static_cast<std::uint8_t>(n);
  std::vector<std::uint8_t> block(1 << 20);
  std::uint64_t state = 1;
  for (std::uint64_t done = 0; done < bytes; done += block.size()) {
    for (std::uint8_t& byte : block) {
      state = state * 6364136223846793005 + 1442695040888963407;
      byte = static_cast<std::uint8_t>(nibble_of[state >> 56] | nibble_of[state >> 48 & 255] << 4);
    }
    file.write(reinterpret_cast<const char*>(block.data()),
               static_cast<std::streamsize>(std::min<std::uint64_t>(block.size(), bytes - done)));
  }
}

void copy(const std::string& from, const std::string& to) {
  const File source = File::open_read(posix(), from);
  File target = File::create(posix(), to);
  const std::uint64_t bytes = source.size(), block = 256 * kKiB;
  target.truncate(bytes);
  std::vector<std::uint8_t> buffers[kThreads];
  parallel_for((bytes + block - 1) / block, kThreads, [&](std::size_t i, int worker) {
    std::vector<std::uint8_t>& buffer = buffers[worker];
    buffer.resize(block);
    const Bytes piece = Bytes(buffer).first(std::min(block, bytes - i * block));
    source.read(piece, i * block);
    target.write(piece, i * block);
  });
  target.sync();
}

// BF16 experts, all of them in one tensor.
void make_floats(const std::string& directory) {
  std::filesystem::create_directory(directory);
  constexpr std::uint64_t experts = 16, down = experts * kHidden * kInner * 2;
  std::ofstream(directory + "/config.json") << fmt::format(
      R"({{"num_hidden_layers": 1, "n_routed_experts": {}, "hidden_size": {}, "moe_intermediate_size": {}}})",
      experts, kHidden, kInner);
  nlohmann::ordered_json header;
  const std::string stem = "model.layers.0.mlp.experts.";
  header[stem + "gate_up_proj"] = {
      {"dtype", "BF16"}, {"shape", {experts, 2 * kInner, kHidden}}, {"data_offsets", {0, 2 * down}}};
  header[stem + "down_proj"] = {
      {"dtype", "BF16"}, {"shape", {experts, kHidden, kInner}}, {"data_offsets", {2 * down, 3 * down}}};
  const std::string text = header.dump();
  std::ofstream file(directory + "/model.safetensors", std::ios::binary);
  for (int i = 0; i < 8; ++i) file.put(static_cast<char>(text.size() >> 8 * i));
  file << text;
  std::vector<std::uint8_t> block(1 << 20);
  std::uint64_t state = 1;
  for (std::uint64_t done = 0; done < 3 * down; done += block.size()) {
    for (std::size_t i = 0; i < block.size(); i += 2) {
      state = state * 6364136223846793005 + 1442695040888963407;
      block[i] = static_cast<std::uint8_t>(state >> 56);
      block[i + 1] = static_cast<std::uint8_t>((state >> 40 & 0x80) | (0x3A + (state >> 48 & 3)));
    }
    file.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(block.size()));
  }
}

void quantize_experts(Runner& runner) {
  std::optional<Directory> directory;
  for (const auto& [to, name] : {std::pair{Fp4::nvfp4, "nvfp4"}, {Fp4::mxfp4, "mxfp4"}}) {
    const std::string row = fmt::format("quantize to {}, 2 threads", name);
    if (!runner.wants(row)) continue;
    if (!directory) {
      directory.emplace(kInMemory);
      make_floats(*directory / "in");
    }
    const std::string source = *directory / "in", target = *directory / "out", other = *directory / "copy";
    const std::uint64_t bytes = std::filesystem::file_size(source + "/model.safetensors");
    const Fp4 format = to;
    runner.compare(
        row, 2 * bytes, 1 / 1.3,
        [&] {
          std::filesystem::remove_all(target);
          RewriteOptions options;
          options.source = source;
          options.target = target;
          return processor_time([&] { quantize(Context{.threads = kThreads}, format, options); });
        },
        [&] {
          std::filesystem::remove(other);
          return processor_time([&] { copy(source + "/model.safetensors", other); });
        },
        5);
  }
}

}  // namespace

void repack_experts(Runner& runner) {
  quantize_experts(runner);
  struct Case {
    Granularity granularity;
    int levels;
    double target;
  };
  const Case cases[] = {{Granularity::tensor_sym, 4, 0.8}, {Granularity::tensor, 4, 0},
                        {Granularity::expert, 4, 0},       {Granularity::row, 4, 0},
                        {Granularity::block32, 4, 0.25},   {Granularity::block32, 8, 0}};
  std::optional<Directory> directory;
  for (const Case& each : cases) {
    const std::string row =
        fmt::format("repack {} {} levels, 2 threads", name(each.granularity), each.levels);
    if (!runner.wants(row)) continue;
    if (!directory) {
      directory.emplace(kInMemory);
      make_checkpoint(*directory / "in");
    }
    RepackOptions options;
    options.source = *directory / "in";
    options.target = *directory / "out";
    options.granularity = each.granularity;
    options.levels = each.levels;
    const std::uint64_t bytes = std::filesystem::file_size(*directory / "in/model.safetensors");
    runner.compare(
        row, 2 * bytes, each.target,
        [&] {
          std::filesystem::remove_all(options.target);
          return processor_time([&] { repack(Context{.threads = kThreads}, options); });
        },
        [&] {
          std::filesystem::remove(*directory / "copy");
          return processor_time([&] { copy(*directory / "in/model.safetensors", *directory / "copy"); });
        },
        5);
  }
}

}  // namespace planesmith::bench
