// What the six programs share: common flags, exit status, signals, messages. A program declares its flags on
// a CLI::App and gives run_program() a body; everything else is here.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/error.h"
#include "common/result.h"

namespace planesmith {

// Flags of CLI.md's "Common" that nearly every command has.
struct CommonFlags {
  bool quiet = false, verbose = false;
  std::string progress = "auto";
  int threads = 0;  // 0: all cores that this process may use
  std::string memory = usual_memory();

 private:
  static std::string usual_memory();  // "2GiB"; less if a control group or the machine has less than 4 GiB
};
void add_common_flags(CLI::App& app, CommonFlags& flags);

// Parses the command line and runs body with a Context made from the flags. Turns Errors into one line on
// stderr and the exit status of CLI.md; with --json prints the document, on failure too. body returns the
// exit status.
int run_program(CLI::App& app, int argc, char** argv, CommonFlags& flags,
                const std::function<int(Context&)>& body);

// --group-shared: opens what this run makes, its locks and its records to the directory's group, whatever the
// umask. Changes the umask: to be called before any thread that creates files.
void share_with_group(Context& context);

// "0-2,7" -> {0, 1, 2, 7}, sorted and unique; anything else is a usage Error naming `what`.
std::vector<std::uint64_t> parse_number_list(const std::string& text, const std::string& what);

}  // namespace planesmith
