// Results on stdout: text at once, or one JSON document at the end of the run (docs/JSON.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace planesmith {

// Prints text. Error: a closed pipe, a full disk.
void print_result(const std::string& text);

// Sets the command's own fields of the document. run_program() prints it, with the common fields, when the
// exit status is known. Strings that are not UTF-8 are escaped as in messages.
void print_json(Json fields);

// Sets the command to run next if this one succeeds: printed last, and a field of the document. Its paths
// must be quoted for a shell.
void suggest_next(std::string command);
std::string quoted_paths(const std::vector<std::string>& paths);  // separated by spaces

// The common fields.
struct Outcome {
  std::string command;  // "verify-ckpt-id check"
  int exit = 0;
  double seconds = 0;
  std::uint64_t bytes_read = 0, bytes_written = 0;
  std::vector<std::string> warnings;
  std::optional<Error> error;
};
const std::string& next_command();  // empty: none
void print_document(const Outcome& outcome);

}  // namespace planesmith
