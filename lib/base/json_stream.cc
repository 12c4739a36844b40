#include "base/json_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <istream>
#include <nlohmann/json.hpp>
#include <streambuf>
#include <vector>

#include "base/lfs_pointer.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kLongestToken = 16 << 20;

// A range of a file as a stream buffer that knows its position in the file.
class FileRange : public std::streambuf {
 public:
  FileRange(const File& file, std::uint64_t offset, std::uint64_t size)
      : file_(file),
        begin_(offset),
        next_(offset),
        event_(offset),
        end_(offset + size),
        block_(std::min<std::uint64_t>(size, 1 << 18)) {}

  // Offset of the byte that was read last, or of the first byte.
  std::uint64_t position() const {
    const std::uint64_t taken = next_ - static_cast<std::uint64_t>(egptr() - gptr());
    return taken > begin_ ? taken - 1 : begin_;
  }
  // To be called at each of the parser's events.
  void mark() { event_ = next_; }

 protected:
  int_type underflow() override {
    if (next_ == end_) return traits_type::eof();
    // The parser buffers a whole token before it reports it.
    if (next_ - event_ > kLongestToken)
      throw Error(file_.path(), fmt::format("not usable JSON: no value ends within {} bytes", kLongestToken))
          .at(event_);
    const auto n = static_cast<std::size_t>(std::min<std::uint64_t>(block_.size(), end_ - next_));
    file_.read({reinterpret_cast<std::uint8_t*>(block_.data()), n}, next_);
    // The parser takes a NUL for the end of its input and skips a byte order mark:
    // what follows would go unseen.
    if (const void* nul = std::memchr(block_.data(), 0, n))
      throw Error(file_.path(), "not valid JSON: a NUL byte")
          .at(next_ + static_cast<std::uint64_t>(static_cast<const char*>(nul) - block_.data()));
    if (next_ == begin_ && block_[0] == '\xEF')
      throw Error(file_.path(), "not valid JSON: begins with a byte order mark").at(begin_);
    next_ += n;
    setg(block_.data(), block_.data(), block_.data() + n);
    return traits_type::to_int_type(block_[0]);
  }

 private:
  const File& file_;
  const std::uint64_t begin_;
  std::uint64_t next_, event_;
  const std::uint64_t end_;
  std::vector<char> block_;
};

}  // namespace

// Turns the parser's events into the visitor's, with position and depth.
class JsonEvents : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonEvents(const File& file, FileRange& range, JsonVisitor& visitor, std::size_t max_depth)
      : range_(range), visitor_(visitor), max_depth_(max_depth) {
    visitor_.path_ = file.path();
  }

  bool null() override {
    return tell([&] { visitor_.other("null"); });
  }
  bool boolean(bool) override {
    return tell([&] { visitor_.other("a boolean"); });
  }
  bool number_integer(number_integer_t) override {
    return tell([&] { visitor_.other("a negative number"); });
  }
  bool number_unsigned(number_unsigned_t value) override {
    return tell([&] { visitor_.number(value); });
  }
  bool number_float(number_float_t, const string_t&) override {
    return tell([&] { visitor_.other("a number that is not a whole one below 2^64"); });
  }
  bool string(string_t& value) override {
    return tell([&] { visitor_.text(value); });
  }
  bool binary(binary_t&) override { return false; }
  bool key(string_t& name) override {
    return tell([&] { visitor_.key(name); });
  }
  bool start_object(std::size_t) override { return open('{'); }
  bool start_array(std::size_t) override { return open('['); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& e) override {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::string_view why = e.what();
    if (const auto colon = why.find(": "); colon != why.npos) why.remove_prefix(colon + 2);
    // The parser's message repeats the whole token, which may be long.
    constexpr std::size_t kLongest = 300;
    const bool cut = why.size() > kLongest;
    visitor_.position_ = range_.position();
    throw visitor_.error(fmt::format("not valid JSON: {}{}", why.substr(0, kLongest), cut ? "..." : ""));
  }

 private:
  template <typename Call>
  bool tell(Call call) {
    visitor_.position_ = range_.position();
    range_.mark();
    call();
    return true;
  }
  bool open(char bracket) {
    return tell([&] {
      if (visitor_.depth_ >= max_depth_)
        throw visitor_.error(fmt::format("JSON nested deeper than {} levels", max_depth_));
      visitor_.open(bracket);
      ++visitor_.depth_;
    });
  }
  bool close() {
    return tell([&] {
      --visitor_.depth_;
      visitor_.close();
    });
  }

  FileRange& range_;
  JsonVisitor& visitor_;
  const std::size_t max_depth_;
};

void visit_json(const File& file, std::uint64_t offset, std::uint64_t size, JsonVisitor& visitor,
                std::size_t max_depth) {
  if (offset == 0) refuse_lfs_pointer(file);
  FileRange range(file, offset, size);
  std::istream stream(&range);
  JsonEvents events(file, range, visitor, max_depth);
  nlohmann::json::sax_parse(stream, &events);
}

}  // namespace planesmith
