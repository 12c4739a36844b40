#include "chunks/frame.h"

#define ZSTD_STATIC_LINKING_ONLY  // for the estimate of memory, ZSTD_getFrameHeader
#include <fmt/format.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/size.h"

namespace planesmith::chunks {
namespace {

constexpr std::size_t kBlock = 128 << 10;  // the largest block that zstd allows
constexpr std::size_t kStoredHead = 4 + 1 + 1 + 4, kBlockHead = 3, kChecksum = 4;

std::uint8_t* put(std::uint8_t* to, std::uint32_t value, int bytes) {
  for (; bytes > 0; --bytes, value >>= 8) *to++ = static_cast<std::uint8_t>(value);
  return to;
}

// Writes a frame of raw blocks only (RFC 8878, section 3.1.1), because the library has no level that stores.
std::size_t store(ConstBytes content, Bytes frame) {
  constexpr std::uint32_t kFourByteSize = 2 << 6, kHasChecksum = 1 << 2, kWindow128KiB = 7 << 3, kLast = 1;
  std::uint8_t* to = put(frame.data(), ZSTD_MAGICNUMBER, 4);
  to = put(to, kFourByteSize | kHasChecksum, 1);
  to = put(to, kWindow128KiB, 1);
  to = put(to, static_cast<std::uint32_t>(content.size()), 4);
  std::size_t done = 0;
  do {
    const std::size_t n = std::min(kBlock, content.size() - done);
    to = put(to, static_cast<std::uint32_t>(n) << 3 | (done + n == content.size() ? kLast : 0), kBlockHead);
    if (n != 0) memcpy(to, content.data() + done, n);
    to += n;
    done += n;
  } while (done < content.size());
  to = put(to, static_cast<std::uint32_t>(XXH64(content.data(), content.size(), 0)), kChecksum);
  return static_cast<std::size_t>(to - frame.data());
}

std::size_t checked(std::size_t result) {
  if (ZSTD_isError(result)) throw Error(fmt::format("zstd: {}", ZSTD_getErrorName(result)));
  return result;
}

}  // namespace

std::uint64_t stored_size(std::uint64_t content_size) {
  const std::uint64_t blocks = std::max<std::uint64_t>((content_size + kBlock - 1) / kBlock, 1);
  return kStoredHead + blocks * kBlockHead + content_size + kChecksum;
}

std::uint64_t frame_bound(std::uint64_t content_size) {
  return std::max<std::uint64_t>(ZSTD_compressBound(content_size), stored_size(content_size));
}

std::uint64_t window_of(ConstBytes head) {
  ZSTD_frameHeader header;
  const std::size_t result = ZSTD_getFrameHeader(&header, head.data(), head.size());
  if (result == 0) return header.windowSize;
  if (ZSTD_getErrorCode(result) != ZSTD_error_frameParameter_windowTooLarge) return 0;
  // The library does not say how large it is.
  const std::uint8_t descriptor = head[5];
  const std::uint64_t base = std::uint64_t{1} << (10 + (descriptor >> 3));
  return base + base / 8 * (descriptor & 7);
}

std::string too_large_window(std::uint64_t window, std::uint64_t allowed) {
  return window > kLargestWindow
             ? fmt::format("its window of {} is larger than {}, the most that is supported",
                           exact_size(window), exact_size(kLargestWindow))
             : fmt::format(
                   "its window of {} is larger than {}, the most that --memory allows; give more "
                   "--memory",
                   exact_size(window), exact_size(allowed));
}

struct Compressor::State {
  int level;
  std::unique_ptr<ZSTD_CCtx, decltype(&ZSTD_freeCCtx)> context{nullptr, &ZSTD_freeCCtx};
};

Compressor::Compressor(int level) : state_(std::make_unique<State>()) {
  state_->level = level;
  if (level == 0) return;
  state_->context.reset(ZSTD_createCCtx());
  if (!state_->context) throw std::bad_alloc();
  checked(ZSTD_CCtx_setParameter(state_->context.get(), ZSTD_c_compressionLevel, level));
  checked(ZSTD_CCtx_setParameter(state_->context.get(), ZSTD_c_checksumFlag, 1));
  // The whole frame stays in place in memory, so nothing is copied although it is compressed in strides.
  checked(ZSTD_CCtx_setParameter(state_->context.get(), ZSTD_c_stableInBuffer, 1));
  checked(ZSTD_CCtx_setParameter(state_->context.get(), ZSTD_c_stableOutBuffer, 1));
}
Compressor::Compressor(Compressor&&) noexcept = default;
Compressor::~Compressor() = default;

std::uint64_t Compressor::memory(int level, std::uint64_t content_size) {
  return level == 0 ? 0 : ZSTD_estimateCCtxSize_usingCParams(ZSTD_getCParams(level, content_size, 0));
}

std::size_t Compressor::compress(ConstBytes content, Bytes frame, const Context& context) {
  if (state_->level == 0) return store(content, frame);
  constexpr std::size_t kStride = 256 << 10;  // at level 19 a tenth of a second
  ZSTD_CCtx* const zstd = state_->context.get();
  checked(ZSTD_CCtx_reset(zstd, ZSTD_reset_session_only));
  checked(ZSTD_CCtx_setPledgedSrcSize(zstd, content.size()));
  ZSTD_inBuffer in{content.data(), 0, 0};
  ZSTD_outBuffer out{frame.data(), frame.size(), 0};
  do {
    context.check_stop();
    in.size = std::min(in.size + kStride, content.size());
    const bool last = in.size == content.size();
    const std::size_t left =
        checked(ZSTD_compressStream2(zstd, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue));
    if (last && left == 0) break;
  } while (true);
  return out.pos <= stored_size(content.size()) ? out.pos : store(content, frame);
}

struct Decompressor::State {
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context{ZSTD_createDCtx(), &ZSTD_freeDCtx};
};

Decompressor::Decompressor() : state_(std::make_unique<State>()) {
  if (!state_->context) throw std::bad_alloc();
}
Decompressor::Decompressor(Decompressor&&) noexcept = default;
Decompressor::~Decompressor() = default;

void Decompressor::decompress(ConstBytes frame, Bytes content) {
  const unsigned long long claimed = ZSTD_getFrameContentSize(frame.data(), frame.size());
  const std::uint64_t window = claimed == ZSTD_CONTENTSIZE_ERROR ? window_of(frame) : 0;
  if (claimed != content.size())
    throw Error(window != 0                         ? too_large_window(window, kLargestWindow)
                : claimed == ZSTD_CONTENTSIZE_ERROR ? "not a zstd frame"
                : claimed == ZSTD_CONTENTSIZE_UNKNOWN
                    ? "a zstd frame that does not say its size"
                    : fmt::format("a zstd frame that claims {} bytes of content, {} were expected", claimed,
                                  content.size()));
  const std::size_t n = checked(
      ZSTD_decompressDCtx(state_->context.get(), content.data(), content.size(), frame.data(), frame.size()));
  if (n != content.size())
    throw Error(fmt::format("a zstd frame held {} bytes of content, {} were expected", n, content.size()));
}

}  // namespace planesmith::chunks
