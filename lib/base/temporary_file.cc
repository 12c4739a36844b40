#include "base/temporary_file.h"

#include <errno.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/dir.h"
#include "base/os_call.h"

namespace planesmith {

File temporary_file(Os& os) {
  const char* const variable = getenv("TMPDIR");
  const Dir dir = Dir::open(os, variable == nullptr || *variable == '\0' ? "/tmp" : variable);
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    fail_errno(dir.path(), "no random numbers for the name of a file", errno);
  const std::string name = fmt::format("planesmith.{:016x}", random);
  File file = dir.create_new(name, 0600);
  dir.unlink(name);
  return file;
}

}  // namespace planesmith
