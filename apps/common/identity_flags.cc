#include "common/identity_flags.h"

namespace planesmith {

void add_identity_flags(CLI::App& app, IdentityOptions& options) {
  CLI::Option* const pin = app.add_option("--ckpt-id", options.pin,
                                          "Identity to use: any string (default: the content id, for which "
                                          "every byte of the checkpoint is hashed once)");
  CLI::Option* const served = app.add_option("--served-path", options.served_path,
                                             "Use the id that the engine computes itself when it is started "
                                             "with this path for this directory")
                                  ->excludes(pin);
  app.add_option("--revision", options.revision,
                 "Commit or revision that the engine is started with (default: none)")
      ->needs(served);
  app.add_flag("--recompute", options.recompute,
               "Hash again instead of reusing known digests for the content id");
}

}  // namespace planesmith
