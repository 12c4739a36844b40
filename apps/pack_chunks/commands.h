// The subcommands of pack-chunks; each file here adds its own.
#pragma once

#include "common/subcommands.h"

namespace planesmith {

void add_pack(Subcommands& commands);
void add_unpack(Subcommands& commands);
void add_verify(Subcommands& commands);
void add_list(Subcommands& commands);
void add_fetch(Subcommands& commands);

// --hash xxh3|sha256|both, taken apart.
struct HashChoice {
  bool xxh3, sha256;
  explicit HashChoice(const std::string& text) : xxh3(text != "sha256"), sha256(text != "xxh3") {}
};

}  // namespace planesmith
