#include "verify/commands.h"

namespace planesmith {
namespace {

struct IdOptions {
  std::string checkpoint;
};

void declare(CLI::App& app, IdOptions& options) {
  app.add_option("checkpoint", options.checkpoint, "Folder of the checkpoint")->required();
}

int run(Context&, const IdOptions&) {
  throw Error("id is not there yet");
}

}  // namespace

void add_id(Subcommands& commands) {
  commands.add<IdOptions>("id", "Print the identity of a checkpoint", declare, run);
}

}  // namespace planesmith
