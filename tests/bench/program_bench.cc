// Measurements with a limit: the time of a dry run over a real model's headers and of reading a large header,
// and memory.
#include <fmt/format.h>
#include <stdlib.h>

#include <filesystem>

#include "base/file.h"
#include "base/size.h"
#include "bench/bench.h"
#include "checkpoint/safetensors.h"

namespace planesmith::bench {
namespace {

// Makes a checkpoint without contents from the headers of a real model, in a directory or an archive. False:
// there are no headers.
bool make_real(const std::string& from, const Directory& directory) {
  std::string headers;
  if (!std::filesystem::exists(from)) return false;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(from)) {
    const std::string path = entry.path().string();
    if (path.ends_with("headers.tar.xz")) {
      headers = directory / "headers";
      std::filesystem::create_directory(headers);
      if (system(fmt::format("tar -xf '{}' -C '{}'", path, headers).c_str()) != 0) return false;
      break;
    }
    if (path.ends_with(".safetensors.json")) {
      headers = from;
      break;
    }
  }
  if (headers.empty()) return false;
  run_program("make-checkpoint", {"--out", directory / "real", "--from-headers", headers});
  return true;
}

void dry_run(Runner& runner) {
  const std::string time = "dry run over a real model's headers, seconds",
                    memory = "dry run over a real model's headers, MB of memory";
  if (!runner.wants(time) && !runner.wants(memory)) return;
  const Directory directory(runner.settings().directory);
  if (!make_real(runner.settings().headers, directory))
    return runner.skip(time, "no headers in " + runner.settings().headers);
  // All headers are read; one layer is planned, so that the space for a whole cache need not be there.
  const Usage usage = run_program(
      "build-planescache", {directory / "real", "--out", directory / "out", "--dry-run", "--layers", "0"});
  runner.limit(time, usage.seconds, 5);
  runner.limit(memory, static_cast<double>(usage.peak_memory) / 1e6, 300);
}

void peak_memory(Runner& runner) {
  const std::string name = "build-planescache --memory {}, MiB of memory";
  const Directory directory(kInMemory);
  bool made = false;
  for (const char* size : {"64MiB", "256MiB", "2GiB"}) {
    const std::string row = fmt::format(fmt::runtime(name), size);
    if (!runner.wants(row)) continue;
    if (!made)
      run_program("make-checkpoint", {"--out", directory / "in", "--layers", "2", "--experts", "8",
                                      "--hidden", "4096", "--intermediate", "2048"});
    made = true;
    std::filesystem::remove_all(directory / "out");
    const Usage usage =
        run_program("build-planescache", {directory / "in", "--out", directory / "out", "--memory", size,
                                          "--ckpt-id", "bench", "--backend", "cpu"});
    const double mib = static_cast<double>(kMiB);
    runner.limit(row, static_cast<double>(usage.peak_memory) / mib,
                 static_cast<double>(parse_size(size, "--memory")) / mib + 64);
  }
}

// The largest header that is read: a million tensors.
void large_header(Runner& runner) {
  const std::string name = "reading a header of 99 MB, a million tensors, seconds";
  if (!runner.wants(name)) return;
  std::string text = "{";
  for (int i = 0; i < 1'000'000; ++i)
    text += fmt::format(
        R"("model.layers.0.mlp.experts.{:016}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}},)", i);
  text.back() = '}';
  text.resize(99'000'000, ' ');
  const Directory directory(runner.settings().directory);
  File file = File::create(posix(), directory / "x.safetensors");
  std::uint8_t size[8];
  for (int i = 0; i < 8; ++i) size[i] = static_cast<std::uint8_t>(text.size() >> 8 * i);
  file.write(size, 0);
  file.write(bytes_of(text), sizeof size);
  runner.limit(name, elapsed([&] { read_safetensors_header(file); }), 5);
}

}  // namespace

void programs(Runner& runner) {
  dry_run(runner);
  peak_memory(runner);
  large_header(runner);  // last: a program's peak counts what this one held when it was started
}

}  // namespace planesmith::bench
