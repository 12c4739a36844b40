// What is fetched from: a repository of a Hugging Face hub, or a directory on a web server.
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
  // What its content should be, as far as it is known.
  std::string sha256{};              // hex
  std::string git_sha1{};            // hex of git's blob digest
  std::optional<Xxh3> xxh3{};        // over the digests of
  std::vector<BlockRange> blocks{};  // these ranges, ascending (a manifest's)
};

class Source {
 public:
  // hf:OWNER/REPO[@REVISION], hf:datasets/OWNER/REPO[@REVISION], or the http(s) URL of a directory. The hub
  // is HF_ENDPOINT, else huggingface.co. Errors (usage): anything else.
  static Source parse(std::string_view text, Os& os);

  bool lists_files() const { return !repo_.empty(); }  // a hub
  const std::string& shown() const { return shown_; }  // as it was given, for messages
  const Token& token() const { return token_; }
  Url file(const std::string& path) const;

  // All files of the repository, sorted by path. Stays on the endpoint whatever its pages link to. Errors:
  // names that leave the directory, the same name twice, digests that are none, more pages, entries or bytes
  // than a repository has or `context.memory` holds.
  std::vector<RemoteFile> list(const Context& context) const;
  // A whole file of at most `most` bytes, in a temporary_file(). Errors: a digest that is
  // known and not its own (difference).
  File read(const RemoteFile& file, std::uint64_t most, const Context& context) const;
  // The same where it may be missing: none where the server answers 404.
  std::optional<File> find(const std::string& path, std::uint64_t most, const Context& context) const;

 private:
  Url base_;  // the endpoint, or the directory; ends with '/'
  Token token_;
  std::string kind_;  // "models" or "datasets"
  std::string repo_, revision_;
  std::string shown_;
};

// The URL of the page after this one, on the endpoint; none where this is the last.
std::optional<Url> next_page(const std::string& link_header, const Url& endpoint);

// The files of one page of the tree API. Errors as for Source::list().
std::vector<RemoteFile> parse_page(std::string_view json, const std::string& name);

}  // namespace planesmith::hub
