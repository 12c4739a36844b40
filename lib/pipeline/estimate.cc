#include "pipeline/estimate.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <vector>

#include "base/dir.h"
#include "base/size.h"

namespace planesmith {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kEach = std::chrono::milliseconds(500);
constexpr std::uint64_t kPieceBytes = 8 * kMiB, kMostWritten = kGiB;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

DiskRates measure_disks(const Context& context, const std::vector<std::string>& files,
                        const std::string& directory) {
  DiskRates rates;
  std::vector<std::uint8_t> buffer(kPieceBytes);
  const Clock::time_point reading = Clock::now();
  std::uint64_t bytes = 0;
  // The first piece of each file, then the second of each, ...
  for (std::uint64_t round = 0, any = 1; any != 0 && Clock::now() - reading < kEach; ++round) {
    any = 0;
    for (const std::string& path : files) {
      const std::uint64_t at = round * 16 * kPieceBytes;
      if (Clock::now() - reading >= kEach) break;
      context.check_stop();
      const File file = File::open_read(context.os, path);
      if (at >= file.size()) continue;
      file.drop_cache(at, kPieceBytes);
      any += file.read_some(buffer, at);
    }
    bytes += any;
  }
  if (bytes != 0) rates.read = static_cast<double>(bytes) / seconds_since(reading);

  const Dir dir = Dir::open(context.os, directory);
  const std::string name = fmt::format(".planesmith-estimate.{}", getpid());
  const Clock::time_point writing = Clock::now();
  std::uint64_t written = 0;
  File file = dir.create_instead(name, 0600);
  dir.unlink(name);  // at once, so that it never stays behind
  while (Clock::now() - writing < kEach && written < kMostWritten) {
    context.check_stop();
    file.write(buffer, written);
    written += buffer.size();
    file.sync();
  }
  rates.write = static_cast<double>(written) / seconds_since(writing);
  return rates;
}

}  // namespace planesmith
