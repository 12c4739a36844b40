// The files beside a checkpoint's weights that a server needs;
// one tool writes as one file what another writes as several.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/os.h"

namespace planesmith {

// Whether the file turns prompts into tokens and back, or formats them.
bool is_tokenizer_file(std::string_view name);
// Whether the file describes how images and videos are prepared.
bool is_processor_file(std::string_view name);

// Files of `source` whose content is in no file of `directory`: a vocabulary or merges are also in
// tokenizer.json, and a chat template may be in tokenizer_config.json.
std::vector<std::string> lost_side_files(Os& os, const std::string& directory, const std::string& source);

// How the vocabulary of `directory` differs from that of `source`, in words; empty where it does not, or
// where one of them has none that can be read within `memory` bytes.
std::string vocabulary_change(Os& os, const std::string& directory, const std::string& source,
                              std::uint64_t memory);

}  // namespace planesmith
