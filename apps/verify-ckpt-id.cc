// verify-ckpt-id: identities of checkpoints, and verification of caches and packs.
#include <unistd.h>

#include <string_view>

#include "verify_ckpt_id/commands.h"

namespace {

bool is_any(std::string_view word, std::initializer_list<std::string_view> of) {
  for (const std::string_view one : of)
    if (word == one) return true;
  return false;
}

// Whether stdout is meant for eval, and whether help was asked for.
struct Wanted {
  bool environment = false, help = false;
};
Wanted wanted(int argc, char** argv) {
  Wanted out;
  for (int i = 2; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (is_any(word, {"--print-env", "--print-env=shell"})) out.environment = true;
    if (is_any(word, {"-h", "--help", "--help-all"})) out.help = true;
  }
  return out;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace planesmith;
  const Wanted to_print = wanted(argc, argv);
  if (to_print.environment && to_print.help)
    dup2(STDERR_FILENO, STDOUT_FILENO);  // eval would run the help text
  Subcommands commands("Identify checkpoints, and prove caches and packs right before they are served",
                       "verify-ckpt-id");
  add_id(commands);
  add_manifest(commands);
  add_verify_manifest(commands);
  add_repair(commands);
  add_check(commands);
  add_store_list(commands);
  add_audit(commands);
  add_prune(commands);
  add_rekey(commands);
  const int status = commands.parse_and_run(argc, argv);
  if (status != 0 && to_print.environment) {
    constexpr std::string_view kFalse = "false\n";  // so that eval fails too
    if (write(STDOUT_FILENO, kFalse.data(), kFalse.size()) < 0) return status;
  }
  return status;
}
