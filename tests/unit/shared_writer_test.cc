// Several threads write ranges of one file in memory, side by side in the same huge pages: every byte
// arrives, and what an operating system that fails is asked for is seen to.
#include "base/shared_writer.h"

#include <doctest/doctest.h>

#include <cstdlib>

#include "base/error.h"
#include "base/parallel.h"
#include "base/size.h"
#include "fault/fault_os.h"
#include "scratch.h"

using namespace planesmith;

namespace {

constexpr std::uint64_t kRange = 3 * kMiB + 12345, kRanges = 9, kSize = kRange * kRanges;

std::uint8_t byte_at(std::uint64_t offset) {
  return static_cast<std::uint8_t>(offset * 31 + offset / 4093 + 1);
}

// Counts what is stored into mapped memory; refuses to map on request.
class StoresOs : public Os, public MemoryFiles {
 public:
  void* map(int fd, off_t offset, std::size_t n) override {
    void* const at = maps ? MemoryFiles::map(fd, offset, n) : nullptr;
    mapped |= at != nullptr;
    return at;
  }
  int make_huge(void* at, std::size_t n) override {
    if (refusal != 0) {
      errno = refusal;
      return -1;
    }
    const int result = MemoryFiles::make_huge(at, n);
    huge += result == 0;
    return result;
  }
  int store(int fd, void* to, const void* from, std::size_t n) override {
    stored += n;
    return MemoryFiles::store(fd, to, from, n);
  }
  bool maps = true, mapped = false;
  int refusal = 0;  // errno
  std::atomic<std::uint64_t> stored{0}, huge{0};
};

void write_range(SharedWriter& writer, File& file, std::uint64_t i) {
  SharedWriter::Range range;
  std::vector<std::uint8_t> piece;
  for (std::uint64_t done = 0; done < kRange; done += piece.size()) {
    piece.resize(std::min<std::uint64_t>(100'000, kRange - done));
    for (std::size_t b = 0; b < piece.size(); ++b) piece[b] = byte_at(i * kRange + done + b);
    writer.write(file, range, piece, i * kRange + done);
  }
  writer.finish(range);
}

std::uint64_t wrong_bytes(const std::string& path) {
  const File file = File::open_read(posix(), path);
  std::vector<std::uint8_t> all(kSize);
  file.read(all, 0);
  std::uint64_t wrong = file.size() != kSize;
  for (std::uint64_t at = 0; at < kSize; ++at) wrong += all[at] != byte_at(at);
  return wrong;
}

// Writes all ranges by three threads.
void write_file(Os& os, const std::string& path, std::uint64_t memory = 3 * SharedWriter::kMapped,
                int threads = 3) {
  File file = File::create(os, path);
  file.truncate(kSize);
  const Context context{.os = os, .threads = threads, .memory = memory};
  SharedWriter writer(context, file, 0, kSize, 1);
  parallel_for(kRanges, threads, [&](std::size_t i, int) { write_range(writer, file, i); });
  file.sync();
}

struct InMemory {
  InMemory() { ::setenv("TMPDIR", "/dev/shm", 1); }
};

}  // namespace

TEST_CASE("ranges that share huge pages") {
  if (!std::filesystem::is_directory("/dev/shm")) {
    MESSAGE("SKIPPED: there is no file system in memory at /dev/shm");
    return;
  }
  const InMemory in_memory;
  const Scratch scratch;
  StoresOs os;
  for (int round = 0; round < 3; ++round) {
    write_file(os, scratch / "file");
    CHECK(wrong_bytes(scratch / "file") == 0);
  }
  if (os.huge == 0) MESSAGE("SKIPPED: this kernel makes no huge pages of files in memory");
  CHECK((os.stored > 0) == (os.huge > 0));
}

TEST_CASE("write calls where huge pages cannot be had") {
  const InMemory in_memory;
  const Scratch scratch;
  StoresOs os;
  SUBCASE("no mapping") {
    os.maps = false;
  }
  SUBCASE("no huge page now") {
    os.refusal = EAGAIN;
  }
  SUBCASE("none ever") {
    os.refusal = EINVAL;
  }
  SUBCASE("a full file system") {
    os.refusal = ENOMEM;
  }
  write_file(os, scratch / "file");
  CHECK(wrong_bytes(scratch / "file") == 0);
  CHECK(os.stored == 0);
}

TEST_CASE("little memory, and short ranges, are not mapped") {
  const InMemory in_memory;
  const Scratch scratch;
  StoresOs os;
  write_file(os, scratch / "file", 3 * SharedWriter::kMapped - 1);
  CHECK(wrong_bytes(scratch / "file") == 0);
  File file = File::create(os, scratch / "short");
  file.truncate(4 * kMiB);
  const Context context{.os = os, .threads = 2};
  const SharedWriter short_range(context, file, 0, kMiB, 1);
  CHECK_FALSE(os.mapped);
}

TEST_CASE("a lone thread uses write calls") {
  const InMemory in_memory;
  const Scratch scratch;
  StoresOs os;
  write_file(os, scratch / "file", 3 * SharedWriter::kMapped, 1);
  CHECK(os.stored == 0);
  CHECK(wrong_bytes(scratch / "file") == 0);
}

TEST_CASE("each operation that fails is an error, and the process may end after each") {
  const InMemory in_memory;
  const Scratch scratch;
  const std::string path = scratch / "tree/file";
  const auto prepare = [&] {
    std::filesystem::remove_all(scratch / "tree");
    std::filesystem::create_directory(scratch / "tree");
  };
  const auto work = [&](Os& os) {
    File file = File::create(os, path);
    file.truncate(kSize);
    const Context context{.os = os, .threads = 2};
    SharedWriter writer(context, file, 0, kSize, 1);
    write_range(writer, file, 0);
    write_range(writer, file, 1);
    file.sync();
  };
  const auto after = [](const FaultOs&) {};
  CHECK(fail_each(scratch / "tree", EIO, false, prepare, work, after) > 60);  // a store is an operation
  CHECK(fail_each(scratch / "tree", ENOSPC, true, prepare, work, after) > 2);
}
