// The source of a fetch: a repository of a Hugging Face hub, or a directory on a web server.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/context.h"
#include "base/hash.h"
#include "hub/exchange.h"
#include "hub/token.h"
#include "hub/url.h"
#include "manifest/manifest.h"

namespace planesmith::hub {

struct RemoteFile {
  std::string path{};  // in the repository or directory, '/' between components
  std::uint64_t size = 0;
  // The known digests of its content.
  std::string sha256{};              // hex
  std::string git_sha1{};            // hex of git's blob digest
  std::optional<Xxh3> xxh3{};        // over the digests of `blocks`
  std::vector<BlockRange> blocks{};  // ascending ranges, from a manifest
};

class Source {
 public:
  // hf:OWNER/REPO[@REVISION], hf:datasets/OWNER/REPO[@REVISION], or the http(s) URL of a directory. The hub
  // is HF_ENDPOINT, else huggingface.co. Errors (usage): anything else.
  static Source parse(std::string_view text, Os& os);

  bool lists_files() const { return !repo_.empty(); }  // a hub
  const std::string& shown() const { return shown_; }  // as given, for messages
  const Token& token() const { return token_; }
  Url file(const std::string& path) const;  // of a file of the repository or directory

  // All files of the repository, sorted by path. Stays on the endpoint even if its pages link elsewhere.
  // Errors: names that leave the directory, the same name twice, malformed digests, more pages, entries or
  // bytes than a repository can have or `context.memory` holds.
  std::vector<RemoteFile> list(const Context& context) const;
  // A whole file of at most `most` bytes, in a temporary_file().
  // Error (difference): it does not match its size or known digest.
  File read(const RemoteFile& file, std::uint64_t most, const Context& context) const;
  // The same for a file that may be missing; none: the server answers 404.
  std::optional<File> find(const std::string& path, std::uint64_t most, const Context& context) const;

 private:
  Url base_;  // the endpoint, or the directory; ends with '/'
  Token token_;
  std::string kind_;  // "models" or "datasets"
  std::string repo_, revision_;
  std::string shown_;
};

// The URL of the next page, on the endpoint; none: this is the last page.
std::optional<Url> next_page(const std::string& link_header, const Url& endpoint);

// The files of one page of the tree API. Errors as for Source::list().
std::vector<RemoteFile> parse_page(std::string_view json, const std::string& name);

}  // namespace planesmith::hub
