// Which frames a run has written, one by one, for the run that continues after a kill. Holds only as long as
// the system runs: what a crash of the machine leaves of the staged files is told by the record that is made
// with every batch.
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
  // fingerprint: of what is unpacked; a journal of anything else is of no use.
  FrameJournal(const Dir& directory, std::string fingerprint, const Context& context);

  // The frames that an earlier run has written since its last record, as flags; frames: how many there are.
  std::vector<bool> read(std::size_t frames) const;
  // Starts anew, with these frames.
  void begin(const std::vector<bool>& written);
  // The content of frame f has been given to the system. From any thread.
  void add(std::size_t f);

 private:
  std::string head() const;
  const Dir directory_;
  const std::string fingerprint_, boot_;
  std::mutex mutex_;
  std::optional<File> file_;
  std::uint64_t size_ = 0;
};

}  // namespace planesmith::chunks
