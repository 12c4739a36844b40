// pack-chunks against tar and zstd: the same tree in the page cache, the same level and threads, the same
// digests.
// The tree is the planes cache of a synthetic checkpoint, in memory; what is packed and unpacked goes to
// --dir. Each is measured where neither side makes its output durable, and unpacking also where both do.
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>

#include "base/error.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "base/text.h"
#include "bench/bench.h"
#include "chunks/pack.h"
#include "chunks/unpack.h"

namespace planesmith::bench {
namespace {

constexpr int kPairs = 7;

// Leaves it to the kernel when to write.
class NoSync : public Os {
 public:
  int fsync(int) override { return 0; }
  int fdatasync(int) override { return 0; }
  int start_writeback(int, off_t, off_t) override { return 0; }
};

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void shell(const std::string& script) {
  const std::string command = "bash -c " + shell_quoted("set -o pipefail; " + script);
  if (::system(command.c_str()) != 0) throw std::runtime_error("failed: " + script);
}

std::uint64_t size_of(const std::string& directory) {
  std::uint64_t sum = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory))
    if (entry.is_regular_file()) sum += entry.file_size();
  return sum;
}

class Bench {
 public:
  Bench(Runner& runner, const std::string& planes, const std::string& dir)
      : runner_(runner), planes_(planes), dir_(dir), content_(size_of(planes)) {}

  void pack_against(int level, const std::string& hash) {
    const bool both = hash == "both";
    const std::string name = fmt::format("pack --level {} --hash {}, {} threads", level, hash, threads_);
    const std::string tar =
        fmt::format("tar -C {} --sparse -c {} | zstd -q -T0 -{}", shell_quoted(parent_of(planes_)),
                    shell_quoted(name_of(planes_)), level);
    runner_.compare(
        name, content_, 1, [&] { return pack(level, both); },
        [&] {
          clean();
          return seconds_of([&] {
            shell(both ? fmt::format(
                             "{} | tee >(sha256sum >{}.a) >(xxhsum -H2 >{}.b) | split -b 16GB - {}/part.",
                             tar, out(), out(), out())
                       : fmt::format("{} >{}/all", tar, out()));
          });
        },
        kPairs);
  }

  // What the levels give and cost, and what zstd makes of the same tar.
  void levels() {
    for (const int level : {0, 1, 2, 3, 6, 9}) {
      const std::string name = fmt::format("pack ratio, level {}", level);
      if (!runner_.wants(name)) continue;
      const double seconds = pack(level, false);
      const auto ratio = [&](std::uint64_t packed) {
        return static_cast<double>(content_) / static_cast<double>(packed);
      };
      const double ours = ratio(size_of(out()) - std::filesystem::file_size(out() + "/manifest.set.json"));
      fmt::print("{:<52} {:>7.2f} GB/s  ratio {:.4f}", name, static_cast<double>(content_) / seconds / 1e9,
                 ours);
      if (level != 0) {
        clean();
        shell(fmt::format("tar -C {} --sparse -c {} | zstd -q -T0 -{} >{}/all",
                          shell_quoted(parent_of(planes_)), shell_quoted(name_of(planes_)), level, out()));
        const double theirs = ratio(size_of(out()));
        fmt::print(", of zstd {:.4f}  {} 0.99", theirs, ours / theirs >= 0.99 ? "meets" : "BELOW");
      }
      fmt::print("\n");
      std::fflush(stdout);
    }
  }

  void unpack_against(bool durable) {
    const std::string name = fmt::format("unpack{}, {} threads", durable ? ", synced" : "", threads_);
    if (!runner_.wants(name)) return;
    const std::string parts = dir_ + "/parts";
    std::filesystem::remove_all(parts);
    pack(chunks::kDefaultLevel, false);
    std::filesystem::rename(out(), parts);
    runner_.compare(
        name, content_, durable ? 1 : 1.5,
        [&] {
          clean();
          return seconds_of([&] {
            const Context unpacking = context(durable);
            chunks::unpack(chunks::find_chunks({parts}, "", "", unpacking), -1, {.out = out()}, unpacking);
          });
        },
        [&] {
          clean();
          return seconds_of([&] {
            shell(fmt::format(
                "cat {}/*.part.* | zstd -dq | tar -x -C {}{}", parts, out(),
                durable ? fmt::format(" && find {} -type f -print0 | xargs -0 sync", out()) : ""));
          });
        },
        kPairs);
    std::filesystem::remove_all(parts);
  }

  ~Bench() {
    std::error_code ignored;
    std::filesystem::remove_all(dir_, ignored);
  }

 private:
  std::string out() const { return dir_ + "/out"; }
  Context context(bool durable) { return {.os = durable ? posix() : no_sync_, .threads = threads_}; }

  // An empty directory, and a disk that is at rest.
  void clean() const {
    std::filesystem::remove_all(out());
    std::filesystem::create_directories(out());
    ::sync();
  }

  double pack(int level, bool both) {
    clean();
    return seconds_of([&] {
      const Context packing = context(false);
      chunks::PackOptions options;
      options.sources = {planes_};
      options.name = "set";
      options.out = out();
      options.level = level;
      options.sha256 = both;
      chunks::pack(chunks::plan_pack(options, packing), options, packing);
    });
  }

  Runner& runner_;
  const std::string planes_, dir_;
  const std::uint64_t content_;
  NoSync no_sync_;
  const int threads_ = hardware_threads();
};

}  // namespace

void packing(Runner& runner) {
  if (!runner.wants_any("pack ") && !runner.wants_any("unpack")) return;
  const Directory memory(kInMemory), disk(runner.settings().directory);
  run_program("make-checkpoint", {"--out", memory / "in", "--layers", "2", "--experts", "16", "--hidden",
                                  "4096", "--intermediate", "2048", "--fill-layers", "0-1"});
  run_program("build-planescache", {memory / "in", "-o", memory / "planes", "--ckpt-id", "bench"});
  Bench bench(runner, memory / "planes", disk / "packed");
  bench.levels();
  for (const int level : {1, 3})
    for (const char* hash : {"both", "xxh3"}) bench.pack_against(level, hash);
  for (const bool durable : {false, true}) bench.unpack_against(durable);
}

}  // namespace planesmith::bench
