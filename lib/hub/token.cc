#include "hub/token.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/file.h"

namespace planesmith::hub {
namespace {

std::string variable(const char* name) {
  const char* const value = getenv(name);
  return value == nullptr ? "" : value;
}

std::string token_file() {
  if (const std::string path = variable("HF_TOKEN_PATH"); !path.empty()) return path;
  if (const std::string home = variable("HF_HOME"); !home.empty()) return join(home, "token");
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty())
    return join(cache, "huggingface/token");
  if (const std::string home = variable("HOME"); !home.empty()) return join(home, ".cache/huggingface/token");
  return "";
}

std::string stripped(const std::string& text) {
  constexpr const char* kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? "" : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

}  // namespace

Token Token::find(Os& os, const Url& endpoint) {
  std::string from = "HF_TOKEN", text = stripped(variable("HF_TOKEN"));
  if (text.empty()) {
    from = token_file();
    try {
      if (!from.empty() && exists(os, from)) text = stripped(read_text(os, from, 64 << 10));
    } catch (const Error&) {  // another user's file, or a directory: counts as no token
    }
  }
  for (const char c : text)
    if (c <= 0x20 || c >= 0x7F)
      throw Error(from, "holds spaces or characters that no token has; correct or remove it");
  return text.empty() ? Token() : Token(text, endpoint);
}

}  // namespace planesmith::hub
