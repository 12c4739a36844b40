// Compares a file's content, as it arrives, with its known digest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/hash.h"
#include "hub/source.h"

namespace planesmith::hub {

class ContentCheck {
 public:
  explicit ContentCheck(const RemoteFile& file);  // must outlive this
  // Whether a digest is known; without one only the size can be compared.
  static bool possible(const RemoteFile& file);

  void update(ConstBytes bytes);  // the next bytes
  // At the end: empty if the content is right, else what was found and expected.
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
