#include "base/temporary_file.h"

#include <errno.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/dir.h"
#include "base/os_call.h"

namespace planesmith {

namespace {

// Opens a file in memory for any path.
class MemoryOs final : public Os {
  int open(const char*, int, mode_t) override { return memfd_create("planesmith", MFD_CLOEXEC); }
};

}  // namespace

File temporary_file(Os& os) {
  const char* const variable = getenv("TMPDIR");
  const bool chosen = variable != nullptr && *variable != '\0';
  if (!chosen && os.access("/tmp", W_OK | X_OK) != 0) {
    static MemoryOs memory;
    return File::create(memory, "a file in memory");
  }
  const Dir dir = Dir::open(os, chosen ? variable : "/tmp");
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    fail_errno(dir.path(), "no random numbers for the name of a file", errno);
  const std::string name = fmt::format("planesmith.{:016x}", random);
  File file = dir.create_new(name, 0600);
  dir.unlink(name);
  return file;
}

}  // namespace planesmith
