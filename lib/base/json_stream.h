// Reading JSON of any size from a file in bounded memory: nothing is kept but what the visitor keeps.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"

namespace planesmith {

// Receives the parts of one document in order; throws what error() makes to refuse one.
class JsonVisitor {
 public:
  virtual ~JsonVisitor() = default;
  virtual void open(char bracket) = 0;            // '{' or '['; depth() does not count it yet
  virtual void close() = 0;                       // depth() no longer counts it
  virtual void key(std::string& name) = 0;        // may be moved from
  virtual void text(std::string& value) = 0;      // a string; may be moved from
  virtual void number(std::uint64_t value) = 0;   // a whole number from 0 to 2^64-1
  virtual void other(std::string_view kind) = 0;  // "null", "a boolean", "a negative number", ...

 protected:
  std::size_t depth() const { return depth_; }          // containers open
  std::uint64_t position() const { return position_; }  // byte in the file that was read last
  // Names file and byte; a visitor that knows more (which tensor) adds it.
  virtual Error error(std::string reason) const { return Error(path_, std::move(reason)).at(position_); }

 private:
  friend class JsonEvents;
  std::string path_;
  std::size_t depth_ = 0;
  std::uint64_t position_ = 0;
};

// Feeds the document in bytes [offset, offset + size) of the file to the visitor. Malformed text (NUL bytes
// and a byte order mark included) and nesting beyond max_depth are Errors that name the file and the byte.
void visit_json(const File& file, std::uint64_t offset, std::uint64_t size, JsonVisitor& visitor,
                std::size_t max_depth = 64);

}  // namespace planesmith
