// Identities that users pass, as the engine reads them.
#pragma once

#include <string_view>

namespace planesmith {

// The text without white space at its ends, as the engine strips VLLM_MOE_W2_CKPT_ID and
// VLLM_MOE_W2_STORE_DIR (Python's str.strip, Unicode white space included).
std::string_view stripped(std::string_view text);

// Error (usage): an identity that is empty, is not UTF-8, has control characters, or begins or ends with
// white space, which the engine strips, so that it could never match. option: "--ckpt-id", for the message.
void check_pin(std::string_view id, std::string_view option);

}  // namespace planesmith
