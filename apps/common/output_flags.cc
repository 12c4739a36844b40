#include "common/output_flags.h"

namespace planesmith {

void add_output_flags(CLI::App& app, OutputFlags& flags) {
  app.add_flag("--no-space-check", flags.no_space_check,
               "Start even if there seems to be too little free space");
  app.add_flag("--group-shared", flags.group_shared,
               "Share the output and its locks with the group of the directory");
}

}  // namespace planesmith
