#include "base/error.h"

#include <errno.h>
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

Error& Error::because(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return labelled("not-found");
    case EACCES:
    case EPERM:
      return labelled("permission");
    case EROFS:
      return labelled("read-only");
    case ENOSPC:
    case EDQUOT:
      return labelled("no-space");
    case EIO:
      return labelled("io");
    default:
      return *this;
  }
}

Error& Error::labelled(std::string_view label) {
  label_ = label;
  return *this;
}

std::string Error::label() const {
  if (!label_.empty()) return label_;
  switch (code_) {
    case ErrorCode::failed:
      return "failed";
    case ErrorCode::usage:
      return "usage";
    case ErrorCode::difference:
      return "difference";
    case ErrorCode::busy:
      return "busy";
    case ErrorCode::hangup:
    case ErrorCode::interrupted:
    case ErrorCode::terminated:
      return "stopped";
  }
  return "failed";
}

std::string Error::advice() const {
  const std::size_t at = reason_.rfind("; ");
  return at == std::string::npos ? "" : reason_.substr(at + 2);
}

void Error::compose() {
  what_.clear();
  if (!path_.empty()) what_ += printable(path_) + ": ";
  if (!tensor_.empty()) what_ += fmt::format("tensor '{}': ", printable(tensor_));
  if (offset_) what_ += fmt::format("at byte {}: ", *offset_);
  what_ += printable(reason_);
}

}  // namespace planesmith
