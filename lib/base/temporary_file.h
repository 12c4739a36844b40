// Room on a disk for what is too large for memory.
#pragma once

#include "base/file.h"

namespace planesmith {

// A new file in $TMPDIR or /tmp that is gone when it is closed; its name is of no use to anyone. In memory
// where TMPDIR is not set and /tmp cannot be written to: a container of these programs alone has none.
File temporary_file(Os& os);

}  // namespace planesmith
