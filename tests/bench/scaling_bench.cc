// How the programs' rates grow with threads, each beside what the machine does without them at the same
// count: a copy that gives each thread a file of its own, or the usual tools. From memory, into memory and
// onto a disk.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "base/size.h"
#include "base/text.h"
#include "bench/scaling.h"
#include "quant/backend.h"

namespace planesmith::bench {
namespace {

constexpr int kRounds = 3;
constexpr std::uint64_t kCopyPiece = 256 * kKiB;

std::uint64_t size_of(const std::string& directory) {
  std::uint64_t sum = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) {
      struct stat st {};
      if (::stat(entry.path().c_str(), &st) == 0)
        sum += std::min<std::uint64_t>(entry.file_size(), static_cast<std::uint64_t>(st.st_blocks) * 512);
    }
  return sum;
}

// The shards of a checkpoint, the parts of a cache.
std::vector<std::string> data_files(const std::string& directory) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file() && entry.path().extension() != ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

void empty(const std::string& directory) {
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void shell(const std::string& script) {
  const std::string command = "bash -c " + shell_quoted("set -o pipefail; " + script);
  if (::system(command.c_str()) != 0) throw std::runtime_error("failed: " + script);
}

// Reads `in` bytes of the shards and writes `out` bytes: each thread a share of the one, into a file of its
// own.
void copy(const std::vector<std::string>& shards, std::uint64_t in, std::uint64_t out, int threads,
          const std::string& directory) {
  std::vector<std::pair<std::string, std::uint64_t>> pieces;  // file, offset
  for (const std::string& shard : shards) {
    const std::uint64_t size = std::filesystem::file_size(shard);
    for (std::uint64_t at = 0; at + kCopyPiece <= size && pieces.size() * kCopyPiece < in; at += kCopyPiece)
      pieces.emplace_back(shard, at);
  }
  const auto count = static_cast<std::size_t>(threads);
  parallel_for(count, threads, [&](std::size_t t, int) {
    std::vector<std::uint8_t> buffer(kCopyPiece);
    File to = File::create(posix(), fmt::format("{}/{}", directory, t));
    std::optional<File> from;
    std::uint64_t written = 0;
    const std::size_t first = pieces.size() * t / count, last = pieces.size() * (t + 1) / count;
    for (std::size_t i = first; i < last; ++i) {
      const auto& [path, offset] = pieces[i];
      if (!from || from->path() != path) from.emplace(File::open_read(posix(), path));
      from->read(buffer, offset);
      const auto due =
          static_cast<std::uint64_t>(static_cast<double>(out / count) * static_cast<double>(i + 1 - first) /
                                     static_cast<double>(last - first));
      while (written < due) {
        const Bytes part = Bytes(buffer).first(std::min(kCopyPiece, due - written));
        to.write(part, written);
        written += part.size();
      }
    }
    to.start_writeback(0, 0);
    to.sync();
  });
}

class Scaling {
 public:
  Scaling(Runner& runner, const std::vector<int>& counts)
      : runner_(runner), counts_(counts), memory_(kInMemory), disk_(runner.settings().directory) {}

  std::vector<Series> run() {
    make_checkpoint();
    for (const bool on_disk : {false, true}) {
      where_ = on_disk ? "disk" : "memory";
      out_ = (on_disk ? disk_ : memory_) / "out";
      const auto build_with = [&](const std::string& backend) {
        return std::vector<std::string>{in_, "--ckpt-id", "bench", "--backend", backend, "-o", out_ + "/c"};
      };
      const std::vector<std::string> build = build_with("cpu");
      against_copy("build-planescache, six parts", "build-planescache", build, 1.20);
      if (!on_disk) on_gpu(build_with("cuda"));
      against_copy("build-planescache, one layer", "build-planescache", with(build, {"--layers", "0"}), 1.6,
                   kLayers);
      large_layer();
      against_copy("build-planescache, three packs", "build-planescache",
                   with(build, {"--store", out_ + "/s", "--tiers", "base,delta,fp4"}), 1.25);
      for (const auto& [granularity, target] : {std::pair{"tensor-sym", 1.4}, std::pair{"block32", 4.0}})
        against_copy(fmt::format("repack-experts build {}", granularity), "repack-experts",
                     {"build", in_, out_ + "/r", "--levels", "4", "--granularity", granularity}, target);
      made_from_cache();
    }
    where_ = "memory";
    out_ = memory_ / "out";
    identity();
    chunks();
    return std::move(series_);
  }

 private:
  static constexpr std::uint64_t kLayers = 16, kParts = 32;

  static std::vector<std::string> with(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // Layers of 13 MB for each expert; as many experts as memory has room for, 96 at most.
  void make_checkpoint() {
    const std::uint64_t room = std::filesystem::space(kInMemory).available, of_expert = kLayers * 13'500'000;
    experts_ = std::clamp<std::uint64_t>(
        std::min(room, std::filesystem::space(runner_.settings().directory).available) / (7 * of_expert), 1,
        std::min<std::uint64_t>(96, 6 * static_cast<std::uint64_t>(hardware_threads())));
    in_ = memory_ / "in";
    fill(in_, kLayers, experts_, kLayers);
    shards_ = data_files(in_);
    fmt::print("a checkpoint of {} layers of {} experts, {:.1f} GB\n", kLayers, experts_,
               static_cast<double>(size_of(in_)) / 1e9);
  }

  static void fill(const std::string& directory, std::uint64_t layers, std::uint64_t experts,
                   std::uint64_t filled) {
    run_program("make-checkpoint", {"--out", directory, "--layers", fmt::to_string(layers), "--experts",
                                    fmt::to_string(experts), "--hidden", "4096", "--intermediate", "2048",
                                    "--shards", "48", "--fill-layers", fmt::format("0-{}", filled - 1)});
  }

  // Measures with another input in memory, which is removed afterwards.
  void with_input(const std::string& name, const std::function<void(const std::string&)>& make,
                  const std::function<void()>& measures) {
    const std::string in = std::exchange(in_, memory_ / name);
    make(in_);
    const std::vector<std::string> shards = std::exchange(shards_, data_files(in_));
    measures();
    std::filesystem::remove_all(in_);
    in_ = in;
    shards_ = shards;
  }

  // A layer of a real size: what a process takes besides its work does not show.
  void large_layer() {
    const std::uint64_t experts = std::min<std::uint64_t>(256, kLayers * experts_);
    with_input(
        "large", [&](const std::string& directory) { fill(directory, 2, experts, 1); },
        [&] {
          against_copy(
              fmt::format("build-planescache, one layer of {} experts", experts), "build-planescache",
              {in_, "--ckpt-id", "bench", "--backend", "cpu", "-o", out_ + "/c", "--layers", "0"}, 1.6);
        });
  }

  void against_copy(const std::string& name, const std::string& program,
                    const std::vector<std::string>& arguments, double target, std::uint64_t part = 1) {
    const std::uint64_t in = size_of(in_) / part;
    std::uint64_t out = 0;
    measure(
        name, "copy", target, [&] { return in + out; },
        [&](int threads) {
          run_program(program, with(arguments, {"-T", fmt::to_string(threads)}));
          out = size_of(out_);
        },
        [&](int threads) { copy(shards_, in, out, threads, out_); });
  }

  void on_gpu(const std::vector<std::string>& build) {
    const std::string name = "build-planescache --backend cuda, six parts", full = name + ", " + where_;
    if (!runner_.wants(full)) return;
    if (std::string why; make_cuda_backend({}, why) == nullptr) return runner_.skip(full, why);
    against_copy(name, "build-planescache", build, 1.25);
  }

  // Reading alone, and what starts from the cache that the checkpoint makes.
  void made_from_cache() {
    const std::string checkpoint = in_;
    if (where_ == "memory") against_copy("repack-experts gate", "repack-experts", {"gate", in_}, 4.0);
    with_input(
        "cache",
        [&](const std::string& cache) {
          run_program("build-planescache",
                      {checkpoint, "--ckpt-id", "bench", "--backend", "cpu", "-o", cache});
        },
        [&] {
          against_copy("build-fp4-packs --from-planescache", "build-fp4-packs",
                       {"--from-planescache", in_, "-o", out_ + "/s", "--reflink", "never"}, 1.25);
          if (where_ == "memory")
            against_copy("verify-ckpt-id verify", "verify-ckpt-id", {"verify", in_}, 1.25);
        });
  }

  // Each count: work and yardstick in turns, each into an empty directory.
  void measure(const std::string& name, const std::string& yardstick, double target,
               const std::function<std::uint64_t()>& bytes, const std::function<void(int)>& work,
               const std::function<void(int)>& reference) {
    const std::string full = fmt::format("{}, {}", name, where_);
    if (!runner_.wants(full)) return;
    Series series{name, where_, yardstick, target, {}};
    fmt::print("{}\n", full);
    for (const int threads : counts_) {
      std::vector<double> ours, theirs, ratios;
      for (int round = 0; round <= kRounds; ++round) {
        const auto timed = [&](const std::function<void(int)>& run) {
          empty(out_);
          if (where_ == "disk") ::sync();
          return elapsed([&] { run(threads); });
        };
        const double mine = timed(work), other = timed(reference);
        if (round == 0 && where_ == "memory") continue;  // the first one finds memory that was never touched
        ours.push_back(mine);
        theirs.push_back(other);
        ratios.push_back(mine / other);
      }
      const double moved = static_cast<double>(bytes()) / 1e9;
      series.points.push_back({threads, moved / median(ours), moved / median(theirs), median(ratios)});
      const Point& point = series.points.back();
      fmt::print("  {:>4} threads {:>8.2f} GB/s  {} {:>8.2f} GB/s  time {:.2f} of it\n", threads, point.rate,
                 yardstick, point.yardstick, point.time_ratio);
      std::fflush(stdout);
    }
    empty(out_);
    series_.push_back(std::move(series));
  }

  void identity() {
    const std::string cache = memory_ / "no-cache";
    setenv("XDG_CACHE_HOME", cache.c_str(), 1);
    measure(
        "verify-ckpt-id id", "sha256sum", 1.0, [&] { return size_of(in_); },
        [&](int threads) {
          run_program("verify-ckpt-id", {"id", in_, "--recompute", "-T", fmt::to_string(threads)});
        },
        [&](int threads) {
          shell(fmt::format("printf '%s\\0' {}/*.safetensors | xargs -0 -n1 -P{} sha256sum >{}/sums",
                            shell_quoted(in_), threads, shell_quoted(out_)));
        });
    unsetenv("XDG_CACHE_HOME");
  }

  // Of the planes that the checkpoint makes.
  void chunks() {
    const std::string planes = memory_ / "planes", parts = memory_ / "parts",
                      stream = memory_ / "all.tar.zst";
    run_program("build-planescache", {in_, "-o", planes, "--ckpt-id", "bench", "--backend", "cpu"});
    const std::string tar = fmt::format("tar -C {} -c . | zstd -q -1 -T", shell_quoted(planes));
    // As many parts as a large cache has: one thread computes the SHA-256 of a part, on any machine.
    const std::uint64_t part = size_of(planes) / kParts;
    measure(
        "pack-chunks pack, level 1, both digests", "tar, zstd", 1 / 3.5, [&] { return size_of(planes); },
        [&](int threads) {
          run_program("pack-chunks",
                      {"pack", planes, "--name", "set", "-o", out_, "--level", "1", "--hash", "both",
                       "--part-size", fmt::to_string(part), "-T", fmt::to_string(threads)});
        },
        [&](int threads) {
          shell(fmt::format("{}{} | tee >(sha256sum >{}/a) >(xxhsum -H2 >{}/b) | split -a 3 -b {} - {}/part.",
                            tar, threads, out_, out_, part, out_));
        });
    run_program("pack-chunks", {"pack", planes, "--name", "set", "-o", parts, "--level", "1", "--part-size",
                                fmt::to_string(part)});
    shell(fmt::format("{}0 >{}", tar, stream));
    measure(
        "pack-chunks unpack", "zstd -d, tar -x", 1 / 7.0, [&] { return size_of(planes); },
        [&](int threads) {
          run_program("pack-chunks", {"unpack", parts, "-C", out_ + "/u", "-T", fmt::to_string(threads)});
        },
        [&](int) { shell(fmt::format("zstd -dqc {} | tar -x -C {}", stream, out_)); });
  }

  Runner& runner_;
  const std::vector<int> counts_;
  const Directory memory_, disk_;
  std::string in_, where_, out_;
  std::uint64_t experts_ = 0;  // in each layer of the checkpoint
  std::vector<std::string> shards_;
  std::vector<Series> series_;
};

}  // namespace

std::vector<int> thread_counts(const std::string& list) {
  std::vector<int> counts;
  for (std::size_t at = 0; at <= list.size();) {
    const std::size_t comma = std::min(list.find(',', at), list.size());
    const std::string word = list.substr(at, comma - at);
    const int count = word == "all" ? hardware_threads() : std::atoi(word.c_str());
    if (count < 1 || count > 4096) throw Error("--threads: '" + word + "' is neither a number nor 'all'");
    counts.push_back(count);
    at = comma + 1;
  }
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::vector<Series> scaling(Runner& runner, const std::vector<int>& counts) {
  return Scaling(runner, counts).run();
}

Json to_json(const std::vector<Series>& series) {
  Json list = Json::array();
  for (const Series& each : series) {
    Json points = Json::array();
    for (const Point& point : each.points)
      points.push_back({{"threads", point.threads},
                        {"gb_per_s", point.rate},
                        {"yardstick_gb_per_s", point.yardstick},
                        {"time_ratio", point.time_ratio}});
    list.push_back({{"name", each.name},
                    {"where", each.where},
                    {"yardstick", each.yardstick},
                    {"target_time_ratio_16_threads", each.target},
                    {"points", points}});
  }
  return list;
}

}  // namespace planesmith::bench
