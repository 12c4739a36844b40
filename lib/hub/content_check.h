// Compares a file's content, as it comes, with the digest that is known of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/hash.h"
#include "hub/source.h"

namespace planesmith::hub {

class ContentCheck {
 public:
  explicit ContentCheck(const RemoteFile& file);  // which outlives it
  // Whether any digest is known: a file without one is told by its size only.
  static bool possible(const RemoteFile& file);

  void update(ConstBytes bytes);  // the next ones
  // At the end: empty where the content is right, else what was found and expected.
  std::string finish();

 private:
  void update_blocks(ConstBytes bytes);
  const RemoteFile& file_;
  std::optional<Sha256> sha256_;
  std::optional<GitBlobSha1> git_sha1_;
  Xxh3Stream block_;
  std::vector<Xxh3> digests_;
  std::uint64_t position_ = 0;
};

}  // namespace planesmith::hub
