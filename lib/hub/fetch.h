// Fetching: from a hub or web server to files in their place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/context.h"

namespace planesmith::hub {

struct FetchOptions {
  std::string source;  // Source::parse
  std::string name;    // of the set or directory, directories in front allowed; empty: the only one
  std::string out = ".";
  std::string parts;  // directory that the parts are kept in; empty: none are kept
  int connections = 16;
  std::vector<std::string> include{}, exclude{};  // chunks/member_filter.h
  bool force = false;                             // replace files that are there with other contents
  bool check_space = true;                        // refuse what does not fit into the free space
  bool dry_run = false;                           // check and count, write nothing
};

// What lies on the other side.
enum class FetchKind {
  frames,   // a set with our manifest: every frame is known
  archive,  // parts of `tar | zstd | split`, without a manifest
  tree,     // files as they are
};
std::string_view name(FetchKind kind);

struct FetchResult {
  FetchKind kind = FetchKind::tree;
  std::string set{};                         // frames, archive: its name
  std::uint64_t files = 0, bytes = 0;        // of content, as far as it is known beforehand
  std::uint64_t kept = 0, kept_bytes = 0;    // of these, there already
  std::uint64_t parts = 0, fetch_bytes = 0;  // what was, or is to be, downloaded
  std::vector<std::string> places{};         // what was made, and
  std::string next{};                        // the command that checks or uses it; empty: none is known
};

// Errors: those of Source, download(), chunks::unpack(); with code usage, several sets and no name.
FetchResult fetch(const FetchOptions& options, const Context& context);

}  // namespace planesmith::hub
