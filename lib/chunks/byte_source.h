// The bytes of all parts as one stream.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/context.h"
#include "base/error.h"
#include "base/file.h"

namespace planesmith::chunks {

class ByteSource {
 public:
  // input: a descriptor to read; -1: the files, in this order.
  ByteSource(int input, std::vector<std::string> files, const Context& context);
  // A file of the stream; begin: position of its first byte.
  struct Part {
    std::string path;
    std::uint64_t begin = 0;
  };
  // pull: fills its argument at least in part and returns how many bytes it wrote, 0 at the end;
  // parts: all files that the bytes are of, in their order.
  using Pull = std::function<std::size_t(Bytes)>;
  ByteSource(Pull pull, std::vector<Part> parts, const Context& context);

  // Up to to.size() bytes; fewer only at the end.
  std::size_t read(Bytes to);
  std::uint64_t position() const { return position_; }
  // An Error that names the file and the offset in it of this position.
  Error error(std::uint64_t position, ErrorCode code, std::string reason) const;

 private:
  std::size_t read_some(Bytes to);

  const int input_;
  const Pull pull_;
  const std::vector<std::string> files_;
  const Context& context_;
  std::optional<File> file_;
  std::vector<Part> parts_;  // of files_: those that were opened
  std::uint64_t position_ = 0;
};

}  // namespace planesmith::chunks
