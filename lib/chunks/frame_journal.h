// Which frames a run has written, one by one, for the run that continues after a kill. Valid only until the
// next boot: after a crash of the machine only the record of the last batch tells what the staged files hold.
#pragma once

#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/dir.h"

namespace planesmith::chunks {

class FrameJournal {
 public:
  // fingerprint: of what is unpacked; a journal with another one is ignored.
  FrameJournal(const Dir& directory, std::string fingerprint, const Context& context);

  // The frames that an earlier run has written since its last record, as flags; frames: how many there are.
  std::vector<bool> read(std::size_t frames) const;
  // Starts a new journal with these frames.
  void begin(const std::vector<bool>& written);
  // Adds frame f, whose content was written (not yet durable). From any thread.
  void add(std::size_t f);

 private:
  std::string head() const;
  const Dir directory_;
  const mode_t mode_;
  const std::string fingerprint_, boot_;
  std::mutex mutex_;
  std::optional<File> file_;
  std::uint64_t size_ = 0;
};

}  // namespace planesmith::chunks
