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
#include <new>

#include "base/machine.h"
#include "base/size.h"
#include "base/text.h"
#include "base/version.h"
#include "common/document.h"
#include "common/progress_line.h"

namespace planesmith {
namespace {

Stop stop;  // the only thing a signal handler can reach

void on_signal(int signal) {
  if (stop.requested()) _exit(128 + signal);  // the second signal does not wait for anything
  stop.request(signal);
}

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A closed pipe and a file beyond the limit are errors of write(), told in words.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
}

// A number that belongs to no stream would be given to the next file that is opened, which messages then
// would end up in.
void keep_standard_streams_apart() {
  constexpr int kUnusable[] = {O_WRONLY, O_RDONLY,
                               O_WRONLY};  // input that cannot be read, output that cannot be written
  for (int fd = 0; fd < 3; ++fd)
    if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", kUnusable[fd]) != fd) _exit(1);
}

// What the storage cannot do is said like any other message, as long as the work goes on.
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

// An empty value is an unset variable of a script; taken as a path it would be the current directory. A
// revision may be empty.
void refuse_empty_values(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options())
    if (option->get_name() != "--revision")
      for (const std::string& value : option->results())
        if (value.empty() && option->get_items_expected_max() != 0)
          throw Error(ErrorCode::usage, "", option->get_name() + " is empty");
  for (const CLI::App* command : app.get_subcommands()) refuse_empty_values(*command);
}

// What could not be taken in, in words.
std::string unknown_argument(const CLI::App& app, const std::string& argument) {
  std::string commands;
  for (const CLI::App* command : app.get_subcommands({}))
    commands += (commands.empty() ? "" : ", ") + command->get_name();
  if (!commands.empty() && app.get_subcommands().empty() && !argument.starts_with('-'))
    return fmt::format("'{}' is not a subcommand; there are: {}", printable(argument), commands);
  return fmt::format("'{}' is no {} of this program; see --help", printable(argument),
                     argument.starts_with('-') ? "flag" : "argument");
}

// A thread has up to four files open at a time: what it reads and writes, a record, a directory.
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
  app.add_flag("-q,--quiet", flags.quiet, "No progress and no messages other than errors");
  app.add_option("--progress", flags.progress,
                 "auto: a live line on a terminal, plain lines elsewhere; plain; none")
      ->check(CLI::IsMember({"auto", "plain", "none"}))
      ->capture_default_str();
  app.add_option("-T,--threads", flags.threads, "Threads to use (0: all cores)")
      ->check(CLI::Range(0, 4096))
      ->capture_default_str();
  app.add_option("--memory", flags.memory,
                 "Hard cap on what is allocated, in bytes or with a unit (2GiB, 16GB)")
      ->capture_default_str();
}

int run_program(CLI::App& app, int argc, char** argv, CommonFlags& flags,
                const std::function<int(Context&)>& body) {
  const std::string program = app.get_name();
  app.set_version_flag(
      "--version", [&] { return fmt::format("{} ({})\n{}", program, version(), libraries()); },
      "Print the versions of this program and its libraries");
  add_generate_flag(app);
  app.get_formatter()->column_width(36);
  keep_standard_streams_apart();
  try {
    app.parse(argc, argv);
    refuse_empty_values(app);
  } catch (const Error& error) {
    complain(program, error.what());
    return static_cast<int>(error.code());
  } catch (const CLI::ParseError& error) {
    // What is not known comes before what is missing: it is the likelier slip.
    if (const std::vector<std::string> unknown = app.remaining(true);
        error.get_exit_code() != 0 && !unknown.empty()) {
      complain(program, unknown_argument(app, unknown.front()));
      return static_cast<int>(ErrorCode::usage);
    }
    if (error.get_exit_code() == 0) return app.exit(error);
    complain(program, std::string(error.what()) + "; see --help");
    return static_cast<int>(ErrorCode::usage);
  }
  install_signal_handlers();
  try {
    ProgressLine progress(flags.quiet, flags.progress);
    Context context{.progress = progress,
                    .stop = &stop,
                    .threads = threads_within_files(flags.threads == 0 ? hardware_threads() : flags.threads),
                    .memory = parse_size(flags.memory, "--memory")};
    const NotesTo notes(context.os, progress);
    if (flags.memory != CommonFlags{}.memory) progress.say("memory cap: " + exact_size(context.memory));
    const int status = body(context);
    progress.end();
    return status;
  } catch (const Error& error) {
    complain(program, error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    complain(program, "out of memory; a smaller --memory or fewer --threads may help");
  } catch (const std::exception& error) {
    complain(program, printable(error.what()));
  }
  return static_cast<int>(ErrorCode::failed);
}

void share_with_group(Context& context) {
  context.group_shared = true;
  ::umask(::umask(0) & ~static_cast<mode_t>(0070));
}

void print_result(const std::string& text) {
  if (fwrite(text.data(), 1, text.size(), stdout) != text.size() || fflush(stdout) != 0)
    throw Error("standard output", strerror(errno));
}

std::vector<std::uint64_t> parse_number_list(const std::string& text, const std::string& what) {
  const auto refuse = [&]() -> Error {
    return Error(ErrorCode::usage, "", fmt::format("{}: '{}' is not a list like 0-2,7", what, text));
  };
  constexpr std::uint64_t kMost =
      1u << 20;  // far beyond any layer or GPU number; keeps a slip from filling memory
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
