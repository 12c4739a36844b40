// SHA-256 digests of files that need not be read again, because another program or an earlier run computed
// them.
#pragma once

#include <string>

#include "base/os.h"

namespace planesmith {

struct KnownDigest {
  std::string sha256;  // hex; empty: not known
  // Said by the hub's client when it downloaded the file; else this program read every byte.
  bool by_download = false;
};

// The digest of directory/name, whose stat(2) is `status`. What tells it, and the file where its name does,
// must belong to the effective user and not be newer than the clock: a time in the future could hide any
// later change. Looked for, in this order,
//   in the name of the file that a link leads to: .../blobs/<64 hex digits> in a Hugging Face cache,
//   in <directory>/.cache/huggingface/download/<name>.metadata, which a download into a local directory
//   leaves (second line;
//     valid while the file was not modified after the time in the third line),
//   in the user's cache, as remember_digest() left it: valid while size, both times and the inode are the
//   same.
KnownDigest known_digest(Os& os, const std::string& directory, const std::string& name,
                         const struct stat& status);

void remember_digest(Os& os, const std::string& path, const struct stat& status, const std::string& sha256);

}  // namespace planesmith
