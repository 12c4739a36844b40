// Single zstd frames: independent, with content size and checksum, window of at most 2^27 bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/context.h"
#include "base/file.h"

namespace planesmith::chunks {

inline constexpr int kMaxLevel = 19;
inline constexpr std::uint64_t kLargestWindow = std::uint64_t{1} << 31;  // that the library decompresses

// The most bytes that a frame of this content can take, at any level (0 included).
std::uint64_t frame_bound(std::uint64_t content_size);

// The exact bytes of a stored frame of this content (level 0).
std::uint64_t stored_size(std::uint64_t content_size);

// Bytes of the window that a frame claims to need (RFC 8878, section 3.1.1.1.2). head: its first bytes. 0:
// they are not the head of a frame.
std::uint64_t window_of(ConstBytes head);
// Why a frame with this window is refused; allowed: the largest window that --memory allows.
std::string too_large_window(std::uint64_t window, std::uint64_t allowed);

// Compresses at one level; 0 stores the bytes. The same content gives the same frame.
class Compressor {
 public:
  explicit Compressor(int level);
  Compressor(Compressor&&) noexcept;
  ~Compressor();
  // Bytes that it allocates besides the buffers.
  static std::uint64_t memory(int level, std::uint64_t content_size);
  // `frame` has room for frame_bound(content.size()) bytes; returns how
  // many were used, at most stored_size(content.size()). Polls Stop every
  // few milliseconds, at the highest levels every tenth of a second.
  std::size_t compress(ConstBytes content, Bytes frame, const Context& context);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Decompressor {
 public:
  Decompressor();
  Decompressor(Decompressor&&) noexcept;
  ~Decompressor();
  // Decompresses one whole frame into exactly content.size() bytes and checks its checksum.
  // Errors do not say where.
  void decompress(ConstBytes frame, Bytes content);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace planesmith::chunks
