// What a run prints on standard output: text at once, or one JSON document at its end (docs/JSON.md).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/json.h"

namespace planesmith {

// Prints text; a pipe that closed early or a full disk is an Error.
void print_result(const std::string& text);

// The command's own fields of the document. run_program() prints it with the common fields around them as
// soon as the exit status is known. Strings that are not UTF-8 are escaped as messages are.
void print_json(Json fields);

// The command that comes next, if this one succeeds: printed last, and a field of the document. Paths in it
// are quoted as a shell wants them.
void suggest_next(std::string command);
std::string quoted_paths(const std::vector<std::string>& paths);  // in one line

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
