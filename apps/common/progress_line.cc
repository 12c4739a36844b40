#include "common/progress_line.h"

#include <fmt/format.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <cmath>

#include "base/error.h"
#include "base/size.h"
#include "base/text.h"

namespace planesmith {
namespace {

constexpr auto kLiveInterval = std::chrono::milliseconds(200);
constexpr auto kPlainInterval = std::chrono::seconds(10);

// Columns that a line may fill without wrapping.
std::size_t columns() {
  struct winsize size {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 79;
  return size.ws_col - 1u;
}

std::string time_of_day() {
  const time_t now = time(nullptr);
  struct tm local {};
  localtime_r(&now, &local);
  return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

}  // namespace

std::string clock_text(double seconds) {
  const auto s = static_cast<std::uint64_t>(std::llround(seconds));
  return s >= 3600 ? fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
                   : fmt::format("{}:{:02}", s / 60, s % 60);
}

void message(std::string_view text) {
  fwrite(text.data(), 1, text.size(), stderr);
  fflush(stderr);
}

ProgressLine::ProgressLine(bool quiet, bool verbose, const std::string& mode)
    : quiet_(quiet),
      verbose_(verbose),
      enabled_(!quiet && mode != "none"),
      live_(mode == "auto" && isatty(STDERR_FILENO)) {}

ProgressLine::~ProgressLine() {
  const std::lock_guard<std::mutex> lock(mutex_);
  wipe();
}

void ProgressLine::begin(std::string_view stage, std::uint64_t total_bytes) {
  end();
  const std::lock_guard<std::mutex> lock(mutex_);
  stage_ = stage;
  total_ = total_bytes;
  done_ = 0;
  layers_ = layers_done_ = 0;
  had_stages_ = true;
  started_ = Clock::now();
  next_show_ = (started_ + (live_ ? Clock::duration(kLiveInterval) : Clock::duration(kPlainInterval)))
                   .time_since_epoch()
                   .count();
}

void ProgressLine::advance(std::uint64_t bytes) {
  done_ += bytes;
  if (!enabled_ || Clock::now().time_since_epoch().count() < next_show_) return;
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (lock.owns_lock() && Clock::now().time_since_epoch().count() >= next_show_) show(false);
}

void ProgressLine::end() {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (stage_.empty()) return;
  if (enabled_ && (live_ || verbose_ || Clock::now() - started_ > kPlainInterval)) show(true);
  if (line_on_screen_) message("\n");
  line_on_screen_ = false;
  stage_.clear();
}

void ProgressLine::say(std::string_view line) {
  if (quiet_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  wipe();
  message(printable(line) + "\n");
}

void ProgressLine::warn(std::string_view line) {
  say(line);
  const std::lock_guard<std::mutex> lock(mutex_);
  warnings_.emplace_back(line);
}

void ProgressLine::show(bool final) {
  if (stage_.empty()) return;
  const auto now = Clock::now();
  const std::size_t width = columns();
  std::string text = live_ ? "" : time_of_day() + "  ";
  for (const std::string& field : fields(final, now)) {
    if (live_ && text.size() + 2 + field.size() > width) break;  // the least important fields come last
    text += (text.empty() || text.ends_with(' ') ? "" : "  ") + field;
  }
  if (live_) {
    message("\r\033[K" + text);
    line_on_screen_ = true;
  } else {
    message(text + "\n");
  }
  next_show_ = (now + (live_ ? Clock::duration(kLiveInterval) : Clock::duration(kPlainInterval)))
                   .time_since_epoch()
                   .count();
}

std::vector<std::string> ProgressLine::fields(bool final, Clock::time_point now) const {
  const double seconds = std::chrono::duration<double>(now - started_).count();
  const std::uint64_t done = done_;
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  std::vector<std::string> out = {printable(stage_)};
  if (total_ != 0)
    out.push_back(fmt::format("{:.0f}%", 100.0 * static_cast<double>(done) / static_cast<double>(total_)));
  if (final)
    out.push_back("in " + clock_text(seconds));
  else if (total_ > done && rate > 0)
    out.push_back(fmt::format("{} left", clock_text(static_cast<double>(total_ - done) / rate)));
  if (layers_ != 0) out.push_back(fmt::format("layer {} of {}", layers_done_.load(), layers_.load()));
  out.push_back(total_ != 0 ? fmt::format("{} of {}", short_size(done), short_size(total_))
                            : short_size(done));
  if (rate >= 1) out.push_back(short_size(static_cast<std::uint64_t>(rate)) + "/s");
  return out;
}

void ProgressLine::wipe() {
  if (line_on_screen_) message("\r\033[K");
  line_on_screen_ = false;
}

}  // namespace planesmith
