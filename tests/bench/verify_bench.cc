// Verification against plain reading of the same files, and SHA-256 against libcrypto in memory.

#include <filesystem>

#include "base/file.h"
#include "base/machine.h"
#include "base/parallel.h"
#include "base/stream.h"
#include "bench/bench.h"
#include "manifest/make_manifest.h"
#include "verify/verify_files.h"

namespace planesmith::bench {
namespace {

struct Files {
  static constexpr std::uint64_t kEach = 256 << 20, kCount = 4, kBytes = kEach * kCount;
  std::string directory;
  Manifest manifest;

  explicit Files(const std::string& where) : directory(where) {
    std::filesystem::create_directory(directory);
    std::vector<std::uint8_t> text(8 << 20);
    std::uint64_t state = 1;
    for (std::uint64_t i = 0; i < kCount; ++i) {
      File file = File::create(posix(), path(i));
      for (std::uint64_t at = 0; at < kEach; at += text.size()) {
        for (std::size_t b = 0; b < text.size(); b += 8) {
          state = state * 6364136223846793005u + 1442695040888963407u;
          std::copy_n(reinterpret_cast<const std::uint8_t*>(&state), 8,
                      text.begin() + static_cast<std::ptrdiff_t>(b));
        }
        file.write(text, at);
      }
      file.sync();  // clean pages can be dropped
    }
    manifest =
        make_manifest({.threads = hardware_threads()}, {directory}, directory + "/m.json", {}).manifest;
  }
  std::string path(std::uint64_t i) const { return directory + "/" + std::to_string(i); }

  void drop() const {
    for (std::uint64_t i = 0; i < kCount; ++i) File::open_read(posix(), path(i)).drop_cache(0, 0);
  }
  // The same bytes in the same pieces, by as many threads, and nothing done with them.
  void read(int threads) const {
    const Context context{.threads = threads};
    StreamBuffers buffers(context);
    constexpr std::uint64_t kUnit = 8 << 20;
    parallel_for(kBytes / kUnit, threads, [&](std::size_t i, int worker) {
      const File file = File::open_read(posix(), path(i * kUnit / kEach));
      stream(context, file, i * kUnit % kEach, kUnit, buffers.of(worker), [](ConstBytes) {});
    });
  }
  void verify(int threads, Hashes hashes) const {
    const VerifyOptions options{.root = directory, .manifest_path = {}, .hashes = hashes};
    if (!verify_files({.threads = threads}, manifest, "bench", options).ok())
      throw std::runtime_error("files differ");
  }
};

}  // namespace

void verification(Runner& runner) {
  if (!runner.wants_any("verify ")) return;
  const Directory directory(runner.settings().directory);
  const Files files(directory / "files");
  const Hashes xxh3{.xxh3 = true, .sha256 = false}, sha256{.xxh3 = false, .sha256 = true};
  const int all = hardware_threads();
  runner.compare(
      "verify XXH3 from the page cache, 1 thread, processor time", Files::kBytes, .8,
      [&] { return processor_time([&] { files.verify(1, xxh3); }); },
      [&] { return processor_time([&] { files.read(1); }); }, 15);
  runner.compare(
      "verify XXH3 from the page cache, all threads, processor time", Files::kBytes, .8,
      [&] { return processor_time([&] { files.verify(all, xxh3); }); },
      [&] { return processor_time([&] { files.read(all); }); }, 15);
  runner.compare(
      "verify XXH3 from disk, all threads, elapsed", Files::kBytes, .9,
      [&] { return files.drop(), elapsed([&] { files.verify(all, xxh3); }); },
      [&] { return files.drop(), elapsed([&] { files.read(all); }); }, 7);
  files.read(all);
  // As `openssl speed -evp sha256` measures it: 16 KiB, over and over.
  runner.compare(
      "verify SHA-256 from the page cache, 1 thread, elapsed", Files::kBytes, .9,
      [&] { return elapsed([&] { files.verify(1, sha256); }); },
      [&] {
        const std::vector<std::uint8_t> block(16 << 10);
        return elapsed([&] {
          Sha256 sha;
          for (std::uint64_t at = 0; at < Files::kBytes; at += block.size()) sha.update(block);
          sha.finish();
        });
      },
      5);
}

}  // namespace planesmith::bench
