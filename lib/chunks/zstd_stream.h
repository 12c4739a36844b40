// Decompresses a stream of zstd frames, made by any program.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/context.h"
#include "base/file.h"
#include "chunks/byte_source.h"

namespace planesmith::chunks {

// Decompresses frames that say their size and are not too large several at a time, and others piece by piece.
// context.memory bounds the memory even if a frame claims more.
class ZstdStream {
 public:
  ZstdStream(ByteSource& source, const Context& context);
  ~ZstdStream();

  // The next bytes of the content; empty at the end. Valid until the next call. Errors, with the offset where
  // the frame begins: data that is not zstd (zeros at the end are padding), damage, an end inside a frame.
  ConstBytes next();
  // The number of zeros at the end of the content returned so far.
  std::uint64_t zeros_at_end() const { return zeros_; }
  // What is wrong with the content: names the frame of the bytes that next() returned last, by the offset
  // where it begins.
  Error error(std::string reason) const {
    return source_.error(given_from_, ErrorCode::failed, std::move(reason));
  }

 private:
  struct Frame {
    std::size_t begin = 0, size = 0;              // in input_
    std::uint64_t position = 0;                   // in the source
    std::uint64_t content = 0, content_size = 0;  // in content_
  };
  struct State;
  enum class Head { end, whole, pieces };

  std::string reason(std::size_t result, std::uint64_t window) const;
  std::size_t fill(std::size_t bytes);
  void require_only_zeros();
  Head look_at_frame(Frame& frame);
  void forget_used();  // of input_; the batch must be empty
  bool collect_batch();
  ConstBytes decompress_piece();
  ConstBytes give(ConstBytes content, std::uint64_t frame);  // frame: its position
  std::uint64_t position() const { return source_.position() - (input_.size() - begin_); }

  ByteSource& source_;
  const Context& context_;
  std::unique_ptr<State> state_;
  std::vector<std::uint8_t> input_;  // compressed bytes; those before begin_ are used up
  std::size_t begin_ = 0;
  std::vector<Frame> batch_;
  std::size_t given_ = 0;                    // frames of the batch that were given out
  std::unique_ptr<std::uint8_t[]> content_;  // of the batch
  std::uint64_t capacity_ = 0;               // of content_
  std::uint64_t skipped_ = 0;                // bytes of skippable frames since the batch was begun
  bool inside_ = false;                      // in a frame that is decompressed piece by piece
  std::uint64_t piecewise_begin_ = 0;        // position of that frame
  std::uint64_t piecewise_window_ = 0;       // of that frame
  std::uint64_t given_from_ = 0;             // position of the frame whose content was given out last
  std::uint64_t zeros_ = 0;
};

}  // namespace planesmith::chunks
