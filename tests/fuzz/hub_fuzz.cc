// Input: `l` and a Link header, else a page of a repository's listing. Whatever they say, the next page is on
// the same server, files stay in the directory, and digests are digests.
#include "base/error.h"
#include "base/text.h"
#include "hub/source.h"
#include "manifest/manifest.h"
#include "require.h"

using namespace planesmith;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    if (text.starts_with('l')) {
      const hub::Url endpoint = hub::Url::parse("https://hub.example:8443/");
      const std::optional<hub::Url> next = hub::next_page(text.substr(1), endpoint);
      require(!next || next->same_origin(endpoint));
      return 0;
    }
    for (const hub::RemoteFile& file : hub::parse_page(text, "page")) {
      require(is_inner_path(file.path) && file.size <= std::uint64_t{1} << 50);
      require(file.sha256.empty() || is_hex(file.sha256, 64));
      require(file.git_sha1.empty() || is_hex(file.git_sha1, 40));
    }
  } catch (const Error& error) {
    require(!std::string(error.what()).empty());
  }
  return 0;
}
