// The access token of a hub: where it is stored, and which origin gets it.
#pragma once

#include <string>

#include "base/os.h"
#include "hub/url.h"

namespace planesmith::hub {

// A secret that is sent to one origin only (scheme, host and port) and never printed.
class Token {
 public:
  Token() = default;  // none
  Token(std::string text, const Url& endpoint) : text_(std::move(text)), origin_(endpoint.origin()) {}

  // From HF_TOKEN, else from the file that `hf auth login` writes: HF_TOKEN_PATH, else $HF_HOME/token, else
  // $XDG_CACHE_HOME/huggingface/token, else ~/.cache/huggingface/token. None of them: no token. Error:
  // characters that no token has, which could add another header.
  static Token find(Os& os, const Url& endpoint);

  bool known() const { return !text_.empty(); }
  bool is_for(const Url& url) const { return known() && url.origin() == origin_; }
  std::string header() const { return "Authorization: Bearer " + text_; }

 private:
  std::string text_, origin_;
};

}  // namespace planesmith::hub
