// pack-chunks: packs trees into parts of limited size, verifies and unpacks them.
#include "pack_chunks/commands.h"

int main(int argc, char** argv) {
  using namespace planesmith;
  Subcommands commands("Pack files into compressed parts, verify them, and unpack them again", "pack-chunks");
  add_pack(commands);
  add_unpack(commands);
  add_verify(commands);
  add_list(commands);
  add_fetch(commands);
  return commands.parse_and_run(argc, argv);
}
