// Whether a file is what git leaves in place of a large file whose contents were not fetched.
#pragma once

#include "base/file.h"

namespace planesmith {

bool is_lfs_pointer(const File& file);

}  // namespace planesmith
