#include "hub/content_check.h"

#include <fmt/format.h>

#include <algorithm>

namespace planesmith::hub {

ContentCheck::ContentCheck(const RemoteFile& file) : file_(file) {
  if (!file.sha256.empty())
    sha256_.emplace();
  else if (!file.git_sha1.empty())
    git_sha1_.emplace(file.size);
}

bool ContentCheck::possible(const RemoteFile& file) {
  return !file.sha256.empty() || !file.git_sha1.empty() || file.xxh3;
}

void ContentCheck::update(ConstBytes bytes) {
  if (sha256_)
    sha256_->update(bytes);
  else if (git_sha1_)
    git_sha1_->update(bytes);
  else if (file_.xxh3)
    update_blocks(bytes);
}

// Bytes between the blocks do not count.
void ContentCheck::update_blocks(ConstBytes bytes) {
  while (!bytes.empty()) {
    std::size_t n = bytes.size();
    if (digests_.size() < file_.blocks.size()) {
      const BlockRange& block = file_.blocks[digests_.size()];
      if (position_ < block.offset) {
        n = std::min<std::uint64_t>(n, block.offset - position_);
      } else {
        n = std::min<std::uint64_t>(n, block.offset + block.size - position_);
        block_.update(bytes.first(n));
        if (position_ + n == block.offset + block.size) digests_.push_back(block_.finish());
      }
    }
    bytes = bytes.subspan(n);
    position_ += n;
  }
}

std::string ContentCheck::finish() {
  const auto compare = [](const char* what, const std::string& found, const std::string& expected) {
    return found == expected ? "" : fmt::format("{} {} instead of {}", what, found, expected);
  };
  if (sha256_) return compare("SHA-256", hex(sha256_->finish()), file_.sha256);
  if (git_sha1_) return compare("git's SHA-1", hex(git_sha1_->finish()), file_.git_sha1);
  if (file_.xxh3) return compare("XXH3", combine(digests_).hex(), file_.xxh3->hex());
  return "";
}

}  // namespace planesmith::hub
