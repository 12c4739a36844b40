// Files of a hub or web server as they are, into a directory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"
#include "hub/source.h"

namespace planesmith::hub {

struct DownloadOptions {
  std::string out = ".";
  std::string strip{};  // directory in front of the files' paths that they lose here
  int connections = 16;
  bool force = false;  // replace files that are there with other contents
  bool check_space = true;
  bool dry_run = false;  // look at what is there, write nothing
};

struct DownloadResult {
  std::uint64_t files = 0, bytes = 0;      // wanted
  std::uint64_t kept = 0, kept_bytes = 0;  // of these, there already with the right contents
  std::uint64_t staged_bytes = 0;          // left by an earlier run, and of use
};

// Each file gets its name (its path, below options.out) when it is whole, durable and has the digest that is
// known of it; one that is wrong is fetched once more. A run that was interrupted goes on where it stopped.
// What is there counts as there by its content, or by what was remembered of it after checking. Errors: other
// contents there, without force; with code difference, content that is not what is listed.
DownloadResult download(const Source& source, const std::vector<RemoteFile>& files,
                        const DownloadOptions& options, const Context& context);

}  // namespace planesmith::hub
