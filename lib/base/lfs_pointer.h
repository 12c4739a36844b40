// What git leaves in place of a large file whose contents were not fetched.
#pragma once

#include "base/file.h"

namespace planesmith {

bool is_lfs_pointer(std::string_view start_of_file);
bool is_lfs_pointer(const File& file);

// Throws an Error that says how to get the file itself.
void refuse_lfs_pointer(std::string_view start_of_file, const std::string& path);
void refuse_lfs_pointer(const File& file);

}  // namespace planesmith
