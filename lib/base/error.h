// The one way in which the library reports failure.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace planesmith {

// Exit status of a program that ends with this error (CLI.md, "Exit status").
enum class ErrorCode {
  failed = 1,
  usage = 2,
  difference = 3,
  busy = 4,           // another run is still writing layers that were asked for
  hangup = 129,       // SIGHUP
  interrupted = 130,  // SIGINT
  terminated = 143    // SIGTERM
};

// Whether the program was told to stop; such an Error is never a finding.
constexpr bool is_stop(ErrorCode code) {
  return static_cast<int>(code) > 128;
}

class Error : public std::exception {
 public:
  // reason: what was found, what was expected, what to do. The other parts say where, as far as it is known.
  Error(ErrorCode code, std::string path, std::string reason);
  explicit Error(std::string reason) : Error(ErrorCode::failed, "", std::move(reason)) {}
  Error(std::string path, std::string reason)
      : Error(ErrorCode::failed, std::move(path), std::move(reason)) {}

  Error& at(std::uint64_t byte_offset);     // position in the file
  Error& because(int error_number);         // errno: sets the label
  Error& labelled(std::string_view label);  // what scripts tell errors apart by (docs/JSON.md)
  Error& in_tensor(std::string_view name);  // tensor the file position belongs to

  ErrorCode code() const { return code_; }
  const std::string& path() const { return path_; }
  const std::string& tensor() const { return tensor_; }
  const std::string& reason() const { return reason_; }
  // The label, or one that follows from the code: "failed", "usage", "difference", "busy", "stopped".
  std::string label() const;
  // What to do: the reason's text after its last semicolon; empty without one.
  std::string advice() const;
  std::optional<std::uint64_t> offset() const { return offset_; }

  // "path: tensor 'name': at byte N: reason", control characters escaped.
  const char* what() const noexcept override { return what_.c_str(); }

 private:
  void compose();
  ErrorCode code_;
  std::string path_, tensor_, reason_, label_, what_;
  std::optional<std::uint64_t> offset_;
};

}  // namespace planesmith
