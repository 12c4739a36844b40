#include "chunks/frame_journal.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <charconv>

#include "base/error.h"

namespace planesmith::chunks {
namespace {

constexpr const char* kName = "journal";
constexpr std::uint64_t kMostBytes = 16 * kMiB;  // two million frames

// Changes with every boot; empty where the system does not tell it.
std::string boot_id(Os& os) {
  const int fd = os.open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC, 0);
  if (fd < 0) return "";
  char text[64];
  const ssize_t n = os.read(fd, text, sizeof text);
  os.close(fd);
  std::string id(text, n < 0 ? 0 : static_cast<std::size_t>(n));
  while (id.ends_with('\n')) id.pop_back();
  return id;
}

}  // namespace

FrameJournal::FrameJournal(const Dir& directory, std::string fingerprint, const Context& context)
    : directory_(directory),
      mode_(context.group_shared ? 0660 : 0600),
      fingerprint_(std::move(fingerprint)),
      boot_(boot_id(context.os)) {}

std::string FrameJournal::head() const {
  return fmt::format("{} {}\n", fingerprint_, boot_);
}

std::vector<bool> FrameJournal::read(std::size_t frames) const {
  std::vector<bool> written(frames, false);
  if (boot_.empty() || !directory_.exists(kName)) return written;
  const File file = directory_.open_read(kName);
  if (file.size() > kMostBytes) return written;
  std::string text(file.size(), '\0');
  file.read({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, 0);
  if (!text.starts_with(head())) return written;
  const char* at = text.data() + head().size();
  const char* const end = text.data() + text.size();
  while (at != end) {
    std::size_t f = 0;
    const auto [next, error] = std::from_chars(at, end, f);
    // A line without its end was being written when the run ended.
    if (error != std::errc() || next == end || *next != '\n' || f >= frames) break;
    written[f] = true;
    at = next + 1;
  }
  return written;
}

void FrameJournal::begin(const std::vector<bool>& written) {
  const std::lock_guard lock(mutex_);
  if (boot_.empty()) return;
  std::string text = head();
  for (std::size_t f = 0; f < written.size(); ++f)
    if (written[f]) text += fmt::format("{}\n", f);
  directory_.write_atomically(kName, text, mode_);
  file_ = directory_.open_write(kName);
  size_ = text.size();
}

void FrameJournal::add(std::size_t f) {
  const std::string line = fmt::format("{}\n", f);
  const std::lock_guard lock(mutex_);
  if (!file_) return;
  file_->write(bytes_of(line), size_);
  size_ += line.size();
}

}  // namespace planesmith::chunks
