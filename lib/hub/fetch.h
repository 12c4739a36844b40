// Fetching: from a hub or web server to files under their final names.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"

namespace planesmith::hub {

struct FetchOptions {
  std::string source;  // for Source::parse()
  std::string name;    // path of the set or directory; empty: the only one
  std::string out = ".";
  std::string parts;  // directory that keeps the parts; empty: they are not kept
  int connections = 16;
  std::vector<std::string> include{}, exclude{};  // chunks/member_filter.h
  bool force = false;                             // replace existing files with other contents
  bool check_space = true;                        // an Error if the files do not fit into the free space
  bool dry_run = false;                           // check and count, write nothing
};

// What the source has.
enum class FetchKind {
  frames,   // a set with our manifest: every frame is known
  archive,  // parts of `tar | zstd | split`, without a manifest
  tree,     // plain files
};
std::string_view name(FetchKind kind);

struct FetchResult {
  FetchKind kind = FetchKind::tree;
  std::string set{};                         // frames, archive: its name
  std::uint64_t files = 0, bytes = 0;        // of content, as far as known beforehand
  std::uint64_t kept = 0, kept_bytes = 0;    // of these, there already
  std::uint64_t parts = 0, fetch_bytes = 0;  // downloaded, or in a dry run to be downloaded
  std::vector<std::string> places{};         // paths of what was made
  std::string next{};                        // the command that checks it; empty: none is known
};

// Errors: those of Source, download(), chunks::unpack(); with code usage, several sets and no name.
FetchResult fetch(const FetchOptions& options, const Context& context);

}  // namespace planesmith::hub
