// SHA-256 digests that another program or an earlier run computed, so that the files need not be read again.
#pragma once

#include <string>

#include "base/os.h"

namespace planesmith {

struct KnownDigest {
  std::string sha256;  // hex; empty: not known
  // From the hub client's download metadata; otherwise this program once read every byte.
  bool by_download = false;
};

// The digest of directory/name, whose stat(2) is `status`. The record (or the blob, where its name is the
// record) must belong to the effective user and not be newer than the clock: a time in the future could hide
// a later change. The places, in this order:
//   - the name of the file that a link leads to: .../blobs/<64 hex digits> in a Hugging Face cache;
//   - the second line of <directory>/.cache/huggingface/download/<name>.metadata, left by a download into a
//     local directory: valid while the file was not modified after the time in the third line;
//     neither counts for an empty file or a safetensors file that its own header calls incomplete;
//   - the user's cache, as remember_digest() left it: valid while size, modification time and inode are
//     the same.
KnownDigest known_digest(Os& os, const std::string& directory, const std::string& name,
                         const struct stat& status);

void remember_digest(Os& os, const std::string& path, const struct stat& status, const std::string& sha256);

}  // namespace planesmith
