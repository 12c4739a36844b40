#include "chunks/byte_source.h"

#include <errno.h>
#include <string.h>

namespace planesmith::chunks {

ByteSource::ByteSource(int input, std::vector<std::string> files, const Context& context)
    : input_(input), files_(std::move(files)), context_(context) {
  if (input_ >= 0) parts_.push_back({"standard input", 0});
}

ByteSource::ByteSource(Pull pull, std::vector<Part> parts, const Context& context)
    : input_(-1), pull_(std::move(pull)), context_(context), parts_(std::move(parts)) {}

std::size_t ByteSource::read_some(Bytes to) {
  if (pull_) return pull_(to);
  if (input_ >= 0) {
    ssize_t n;
    do {
      context_.check_stop();
      n = context_.os.read(input_, to.data(), to.size());
    } while (n < 0 && errno == EINTR);
    if (n < 0) throw error(position_, ErrorCode::failed, strerror(errno));
    return static_cast<std::size_t>(n);
  }
  for (;;) {
    if (!file_) {
      if (parts_.size() == files_.size()) return 0;
      parts_.push_back({files_[parts_.size()], position_});
      file_ = File::open_read(context_.os, parts_.back().path);
    }
    if (const std::size_t n = file_->read_some(to, position_ - parts_.back().begin); n != 0) return n;
    file_.reset();
  }
}

std::size_t ByteSource::read(Bytes to) {
  std::size_t done = 0;
  while (done < to.size()) {
    const std::size_t n = read_some(to.subspan(done));
    if (n == 0) break;
    done += n;
    position_ += n;
  }
  return done;
}

Error ByteSource::error(std::uint64_t position, ErrorCode code, std::string reason) const {
  auto file = parts_.rbegin();
  while (file != parts_.rend() && file->begin > position) ++file;
  if (file == parts_.rend()) return Error(code, "", std::move(reason));
  return std::move(Error(code, file->path, std::move(reason)).at(position - file->begin));
}

}  // namespace planesmith::chunks
