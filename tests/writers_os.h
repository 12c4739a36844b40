// An operating system that counts how many threads write into a file at the same time.
#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/os.h"

// Files are distinguished by inode; those opened only for a record or a lock count, too.
class WritersOs : public planesmith::Os {
 public:
  // Called under a lock when a second thread begins to write into a file.
  std::function<void()> on_second_writer;

  ssize_t pwrite(int fd, const void* from, std::size_t n, off_t offset) override {
    struct stat st {};
    Os::fstat(fd, &st);
    {
      const std::lock_guard<std::mutex> lock(mutex);
      writers.insert(std::this_thread::get_id());
      if (++inside_[st.st_ino] > 1) {
        ++second_writers;
        if (on_second_writer) on_second_writer();
      }
      most_files =
          std::max(most_files,
                   static_cast<std::size_t>(std::count_if(
                       inside_.begin(), inside_.end(), [](const auto& file) { return file.second != 0; })));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));  // others get their turn
    const ssize_t result = Os::pwrite(fd, from, n, offset);
    const std::lock_guard<std::mutex> lock(mutex);
    --inside_[st.st_ino];
    if (result > 0) written[st.st_ino] += static_cast<std::size_t>(result);
    return result;
  }
  int fsync(int) override { return 0; }
  int fdatasync(int) override { return 0; }

  std::mutex mutex;
  std::set<std::thread::id> writers;
  std::size_t second_writers = 0, most_files = 0;
  std::map<ino_t, std::size_t> written;  // bytes

 private:
  std::map<ino_t, int> inside_;
};
