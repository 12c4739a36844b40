// Downloads files of a hub or web server unchanged into a directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "hub/source.h"

namespace planesmith::hub {

struct DownloadOptions {
  std::string out = ".";
  std::string strip{};  // directory to remove from the front of the files' paths
  int connections = 16;
  bool force = false;  // replace existing files with other contents
  bool check_space = true;
  bool dry_run = false;  // check what is there, write nothing
};

struct DownloadResult {
  std::uint64_t files = 0, bytes = 0;      // all that were wanted
  std::uint64_t kept = 0, kept_bytes = 0;  // of these, there already with the right contents
  std::uint64_t staged_bytes = 0;          // usable bytes that an earlier run left
};

// Each file gets its name (its path below options.out) when it is complete, durable and matches its known
// digest; a wrong one is fetched once more. Continues an interrupted run. Keeps an existing file if its
// content, or the digest remembered from an earlier comparison, is right. Errors: an existing file with other
// contents, without force; with code difference, content that is not what is listed.
DownloadResult download(const Source& source, const std::vector<RemoteFile>& files,
                        const DownloadOptions& options, const Context& context);

}  // namespace planesmith::hub
