// The files beside a checkpoint's weights that a server needs: what one tool writes as one file, another
// writes as several.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/os.h"

namespace planesmith {

// Turns prompts into tokens and back, or formats them.
bool is_tokenizer_file(std::string_view name);
// Prepares images and videos.
bool is_processor_file(std::string_view name);

// Files of `source` whose content `directory` has in none of its own: a vocabulary or merges are in
// tokenizer.json too, a chat template may be in tokenizer_config.json.
std::vector<std::string> lost_side_files(Os& os, const std::string& directory, const std::string& source);

// How the vocabulary of `directory` differs from that of `source`, in a sentence; empty where it does not, or
// where one of them has none that can be read within `memory` bytes.
std::string vocabulary_change(Os& os, const std::string& directory, const std::string& source,
                              std::uint64_t memory);

}  // namespace planesmith
