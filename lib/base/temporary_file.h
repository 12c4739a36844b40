// Disk space for data that is too large for memory.
#pragma once

#include "base/file.h"

namespace planesmith {

// A new file in $TMPDIR or /tmp, already unlinked: it is gone when it is closed.
// In memory if TMPDIR is not set and /tmp is not writable, as in a container that holds only these programs.
File temporary_file(Os& os);

}  // namespace planesmith
