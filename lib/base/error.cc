#include "base/error.h"

#include <fmt/format.h>

#include "base/text.h"

namespace planesmith {

Error::Error(ErrorCode code, std::string path, std::string reason)
    : code_(code), path_(std::move(path)), reason_(std::move(reason)) {
  compose();
}

Error& Error::at(std::uint64_t byte_offset) {
  offset_ = byte_offset;
  compose();
  return *this;
}

Error& Error::in_tensor(std::string_view name) {
  tensor_ = name;
  compose();
  return *this;
}

void Error::compose() {
  what_.clear();
  if (!path_.empty()) what_ += printable(path_) + ": ";
  if (!tensor_.empty()) what_ += fmt::format("tensor '{}': ", printable(tensor_));
  if (offset_) what_ += fmt::format("at byte {}: ", *offset_);
  what_ += printable(reason_);
}

}  // namespace planesmith
