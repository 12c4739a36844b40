#include "common/program.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <new>
#include <optional>

#include "base/machine.h"
#include "base/plugins.h"
#include "base/size.h"
#include "base/text.h"
#include "base/version.h"
#include "common/counted_os.h"
#include "common/document.h"
#include "common/help.h"
#include "common/progress_line.h"
#include "common/suggest.h"
#include "quant/backend.h"

namespace planesmith {
namespace {

Stop stop;                        // this and the next are all that the signal handler uses
volatile sig_atomic_t quiet = 0;  // whether it prints no message

void on_signal(int signal) {
  if (stop.requested()) _exit(128 + signal);  // a second signal ends the program at once
  stop.request(signal);
  static constexpr char kText[] = "\nstopping; a second signal ends the program at once\n";
  if (quiet == 0 && write(STDERR_FILENO, kText, sizeof kText - 1) < 0) return;
}

void install_signal_handlers() {
  struct sigaction action {
  }, before{};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // nohup sets SIGHUP to be ignored; that must stay.
  if (sigaction(SIGHUP, nullptr, &before) == 0 && before.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &action, nullptr);
  // Let write() fail on a closed pipe or a file beyond the size limit, so that it becomes a message.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

// If a standard stream is closed, the next opened file would get its number and receive messages.
void keep_standard_streams_apart() {
  constexpr int kUnusable[] = {O_WRONLY, O_RDONLY,
                               O_WRONLY};  // so that reading stdin and writing stdout fail
  for (int fd = 0; fd < 3; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", kUnusable[fd]) != fd) _exit(1);
}

// Forwards notes about what the storage cannot do as messages, while the run lasts.
class NotesTo {
 public:
  NotesTo(Os& os, Progress& progress) : os_(os) {
    os_.pass_notes_to([&progress](const std::string& line) { progress.say(line); });
  }
  NotesTo(const NotesTo&) = delete;
  ~NotesTo() { os_.pass_notes_to(nullptr); }

 private:
  Os& os_;
};

void complain(const std::string& program, const std::string& what) {
  message(program + ": " + what + "\n");
}

// An empty value usually comes from an unset variable in a script; as a path it would mean the current
// directory. A revision may be empty.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    if (option->get_name() != "--revision")
      for (const std::string& value : option->results())
        if (value.empty() && option->get_items_expected_max() != 0)
          throw Error(ErrorCode::usage, "", option->get_name() + " is empty");
  for (const CLI::App* command : app.get_subcommands()) refuse_empty_values(*command);
}

// "verify-ckpt-id list"
std::string command_of(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* command : app.get_subcommands()) name += " " + command->get_name();
  return name;
}

// The message for an argument that no option takes.
std::string unknown_argument(const CLI::App& app, const std::string& argument) {
  std::string commands;
  for (const CLI::App* command : app.get_subcommands({}))
    commands += (commands.empty() ? "" : ", ") + command->get_name();
  const std::string near = suggestion_for(app, argument);
  if (!commands.empty() && app.get_subcommands().empty() && !argument.starts_with('-'))
    return fmt::format("'{}' is not a subcommand{} there are: {}", printable(argument),
                       near.empty() ? ";" : near, commands);
  return fmt::format("'{}' is not an {} of {}{}", printable(argument),
                     argument.starts_with('-') ? "option" : "argument", command_of(app),
                     near.empty() ? fmt::format("; see {} --help", command_of(app)) : near);
}

// The Error for a wrong command line; none: it asked for help or a version, which has been printed.
std::optional<Error> refusal(CLI::App& app, int argc, char** argv) {
  try {
    app.parse(argc, argv);
    refuse_empty_values(app);
    return std::nullopt;
  } catch (const Error& error) {
    return error;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) exit(app.exit(error));
    // Report unknown arguments before missing ones: a typo is more likely.
    if (const std::vector<std::string> unknown = app.remaining(true); !unknown.empty())
      return Error(ErrorCode::usage, "", unknown_argument(app, unknown.front()));
    const std::string near = suggestion_for_values(app);
    return Error(ErrorCode::usage, "", std::string(error.what()) + (near.empty() ? "; see --help" : near));
  }
}

// Whether --json was given, also if the command line could not be parsed.
bool wants_json(const CLI::App& app, int argc, char** argv) {
  for (const CLI::App* command : app.get_subcommands())
    if (const CLI::Option* json = command->get_option_no_throw("--json"); json != nullptr && *json)
      return true;
  if (const CLI::Option* json = app.get_option_no_throw("--json"); json != nullptr && *json) return true;
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i)
    if (std::string_view(argv[i]) == "--json") return true;
  return false;
}

// "done in 1:03, read 4.20 GiB, wrote 2.10 GiB, 102 MiB/s"
std::string summary(const Outcome& outcome) {
  std::string text =
      fmt::format("{} in {}", outcome.exit == 0 ? "done" : "ended", clock_text(outcome.seconds));
  if (outcome.bytes_read != 0) text += ", read " + short_size(outcome.bytes_read);
  if (outcome.bytes_written != 0) text += ", wrote " + short_size(outcome.bytes_written);
  const double rate = static_cast<double>(outcome.bytes_read + outcome.bytes_written) / outcome.seconds;
  if (outcome.seconds >= 0.1 && rate >= 1)
    text += fmt::format(", {}/s", short_size(static_cast<std::uint64_t>(rate)));
  return text;
}

// A thread has up to four files open at a time: its input, its output, a record, a directory.
int threads_within_files(int threads) {
  const std::uint64_t most = std::max<std::uint64_t>(open_files_left() / 4, 1);
  return static_cast<int>(std::min(static_cast<std::uint64_t>(threads), most));
}

}  // namespace

std::string CommonFlags::usual_memory() {
  const std::uint64_t bytes = default_memory();
  return bytes % kGiB == 0 ? fmt::format("{}GiB", bytes / kGiB) : fmt::format("{}MiB", bytes / kMiB);
}

void add_common_flags(CLI::App& app, CommonFlags& flags) {
  app.add_flag("-q,--quiet", flags.quiet, "Print only results and errors");
  app.add_flag("-v,--verbose", flags.verbose, "Print a line for each stage, however short");
  app.add_option("--progress", flags.progress,
                 "auto: a live line on a terminal, plain lines elsewhere; plain; none")
      ->check(CLI::IsMember({"auto", "plain", "none"}))
      ->capture_default_str();
  app.add_option("-T,--threads", flags.threads, "Threads to use (0: all cores)")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--memory", flags.memory,
                 "Hard cap on allocated memory: bytes, or with a unit (16G = 16GiB = 2^34, 16GB = 16 * 10^9)")
      ->capture_default_str();
}

int run_program(CLI::App& app, int argc, char** argv, CommonFlags& flags,
                const std::function<int(Context&)>& body) {
  const std::string program = app.get_name();
  app.set_version_flag(
      "-V,--version",
      [&] {
        return fmt::format("{} ({})\n{}, CUDA backend {}", program, version(), libraries(),
                           cuda_built_in() ? "built in" : "not built in");
      },
      "Print the versions of this program and its libraries");
  add_generate_flag(app);
  add_help_sections(app);
  app.get_formatter()->column_width(36);
  keep_standard_streams_apart();
  enlarge_descriptor_table();
  load_no_plugins();

  const auto started = std::chrono::steady_clock::now();
  Outcome outcome;
  outcome.error = refusal(app, argc, argv);
  outcome.command = command_of(app);
  const bool json = wants_json(app, argc, argv);
  quiet = flags.quiet ? 1 : 0;
  install_signal_handlers();
  CountedOs os;
  ProgressLine progress(flags.quiet, flags.verbose, flags.progress);
  try {
    if (outcome.error) throw Error(*outcome.error);
    Context context{.os = os,
                    .progress = progress,
                    .stop = &stop,
                    .threads = threads_within_files(flags.threads == 0 ? hardware_threads() : flags.threads),
                    .memory = parse_size(flags.memory, "--memory")};
    const NotesTo notes(context.os, progress);
    if (flags.memory != CommonFlags{}.memory) progress.say("memory cap: " + exact_size(context.memory));
    outcome.exit = body(context);
  } catch (const Error& error) {
    const std::string near = error.code() == ErrorCode::usage ? suggestion_for_values(app) : "";
    outcome.error = near.empty() ? error : Error(error.code(), error.path(), error.reason() + near);
  } catch (const std::bad_alloc&) {
    outcome.error = Error("out of memory; a smaller --memory or fewer --threads may help").labelled("memory");
  } catch (const std::exception& error) {
    outcome.error = Error(printable(error.what()));
  }
  progress.end();
  if (outcome.error) outcome.exit = static_cast<int>(outcome.error->code());
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  outcome.bytes_read = os.bytes_read();
  outcome.bytes_written = os.bytes_written();
  outcome.warnings = progress.warnings();
  if (outcome.error) complain(program, outcome.error->what());
  if (!outcome.error && progress.had_stages()) progress.say(summary(outcome));
  if (outcome.exit == 0 && !next_command().empty()) progress.say("next: " + printable(next_command()));
  try {
    if (json) print_document(outcome);
  } catch (const Error& error) {
    complain(program, error.what());
    return static_cast<int>(ErrorCode::failed);
  }
  return outcome.exit;
}

void share_with_group(Context& context) {
  context.group_shared = true;
  // Does not ask file_creation_mask(), which without /proc would go on telling the mask of before.
  const mode_t before = ::umask(077);
  ::umask(before & ~static_cast<mode_t>(0070));
}

std::vector<std::uint64_t> parse_number_list(const std::string& text, const std::string& what) {
  const auto refuse = [&]() -> Error {
    return Error(ErrorCode::usage, "", fmt::format("{}: '{}' is not a list like 0-2,7", what, text));
  };
  constexpr std::uint64_t kMost =
      1u << 20;  // far above any layer or GPU number; keeps a typo from filling memory
  std::vector<std::uint64_t> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto number = [&] {
    std::uint64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value > kMost) throw refuse();
    at = next;
    return value;
  };
  for (;;) {
    const std::uint64_t first = number();
    std::uint64_t last = first;
    if (at != end && *at == '-') {
      ++at;
      last = number();
    }
    if (last < first) throw refuse();
    for (std::uint64_t n = first; n <= last; ++n) numbers.push_back(n);
    if (at == end) break;
    if (*at++ != ',') throw refuse();
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

}  // namespace planesmith
