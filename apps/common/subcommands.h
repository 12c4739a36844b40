// Programs with subcommands. Each subcommand declares its flags on an options struct and is one function of
// that struct.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/program.h"

namespace planesmith {

class Subcommands {
 public:
  Subcommands(const std::string& description, const std::string& program) : app_(description, program) {
    app_.require_subcommand(1);
  }

  // `declare` adds the subcommand's flags; common flags are added here. `run` does the work and returns the
  // exit status.
  template <class Options>
  void add(const std::string& name, const std::string& description, void (*declare)(CLI::App&, Options&),
           int (*run)(Context&, const Options&)) {
    const auto options = std::make_shared<Options>();
    CLI::App* const command = app_.add_subcommand(name, description);
    declare(*command, *options);
    add_common_flags(*command, flags_);
    command->get_formatter()->column_width(36);
    command->callback([this, run, options] {
      chosen_ = [run, options](Context& context) { return run(context, *options); };
    });
  }

  int parse_and_run(int argc, char** argv) {
    return run_program(app_, argc, argv, flags_, [this](Context& context) { return chosen_(context); });
  }

 private:
  CLI::App app_;
  CommonFlags flags_;
  std::function<int(Context&)> chosen_;
};

}  // namespace planesmith
