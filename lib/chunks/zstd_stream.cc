#include "chunks/zstd_stream.h"

#define ZSTD_STATIC_LINKING_ONLY  // for ZSTD_getFrameHeader
#include <fmt/format.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "base/size.h"
#include "chunks/frame.h"
#include "chunks/member.h"

namespace planesmith::chunks {
namespace {

constexpr std::size_t kPiece = 1 << 20, kReadAhead = 1 << 20;
constexpr std::uint64_t kLargestWhole = 256 * kMiB;
// Tiny frames are decompressed together, up to this many.
constexpr std::size_t kMostFrames = 4096;

}  // namespace

struct ZstdStream::State {
  std::unique_ptr<ZSTD_DCtx, decltype(&ZSTD_freeDCtx)> context{ZSTD_createDCtx(), &ZSTD_freeDCtx};
  std::vector<Decompressor> decompressors;  // one for each thread
  std::vector<std::uint8_t> piece;
  std::uint64_t most_window = 0;  // of frames that are decompressed piece by piece
};

ZstdStream::ZstdStream(ByteSource& source, const Context& context)
    : source_(source), context_(context), state_(std::make_unique<State>()) {
  if (!state_->context) throw std::bad_alloc();
  int window_log = ZSTD_WINDOWLOG_MIN;
  while (window_log < ZSTD_WINDOWLOG_MAX && std::uint64_t{2} << (window_log + 1) <= context.memory)
    ++window_log;
  state_->most_window = std::uint64_t{1} << window_log;
  ZSTD_DCtx_setParameter(state_->context.get(), ZSTD_d_windowLogMax, window_log);
  state_->decompressors.resize(static_cast<std::size_t>(std::max(context.threads, 1)));
}

ZstdStream::~ZstdStream() = default;

// What the library's error means; window: of the frame.
std::string ZstdStream::reason(std::size_t result, std::uint64_t window) const {
  return ZSTD_getErrorCode(result) == ZSTD_error_frameParameter_windowTooLarge
             ? too_large_window(window, state_->most_window)
             : ZSTD_getErrorName(result);
}

// Reads until `bytes` bytes are in the buffer, or to the end; returns how many there are.
std::size_t ZstdStream::fill(std::size_t bytes) {
  const std::size_t there = input_.size() - begin_;
  if (there >= bytes) return there;
  const std::size_t size = input_.size(), more = std::max(bytes - there, kReadAhead);
  input_.resize(size + more);
  input_.resize(size + source_.read(Bytes(input_).subspan(size)));
  return input_.size() - begin_;
}

void ZstdStream::require_only_zeros() {
  while (fill(1) != 0) {
    context_.check_stop();
    const auto begin = input_.begin() + static_cast<std::ptrdiff_t>(begin_);
    const auto other = std::find_if(begin, input_.end(), [](std::uint8_t byte) { return byte != 0; });
    begin_ += static_cast<std::size_t>(other - begin);
    if (other != input_.end())
      throw source_.error(position(), ErrorCode::failed, "no zstd frame begins here, and it is not padding");
    input_.clear();
    begin_ = 0;
  }
}

// What comes next: a frame that can be decompressed as a whole, one that must be in pieces, or the end.
ZstdStream::Head ZstdStream::look_at_frame(Frame& frame) {
  constexpr std::size_t kSkippableHead = 8;
  for (;;) {
    const std::size_t there = fill(ZSTD_FRAMEHEADERSIZE_MAX);
    if (there == 0) return Head::end;
    ZSTD_frameHeader header;
    const std::size_t result = ZSTD_getFrameHeader(&header, input_.data() + begin_, there);
    if (input_[begin_] == 0) {  // padding; checked once the frames before it are done
      if (batch_.empty()) require_only_zeros();
      return Head::end;
    }
    if (ZSTD_isError(result))
      throw source_.error(position(), ErrorCode::failed,
                          ZSTD_getErrorCode(result) == ZSTD_error_prefix_unknown
                              ? "no zstd frame begins here"
                              : fmt::format("the frame that begins here cannot be decompressed: {}",
                                            reason(result, window_of(ConstBytes(input_).subspan(begin_)))));
    if (result != 0)
      throw source_.error(position(), ErrorCode::failed,
                          "ends inside a frame; a part is missing or was cut short");
    if (header.frameType == ZSTD_skippableFrame) {
      const std::uint64_t frame_begin = position();
      // What is skipped between frames of a batch stays in memory as long as they do.
      skipped_ += kSkippableHead + header.frameContentSize;
      if (!batch_.empty() && skipped_ > kReadAhead) return Head::end;
      for (std::uint64_t left = kSkippableHead + header.frameContentSize; left != 0;) {
        const std::size_t n = std::min<std::uint64_t>(left, fill(std::min<std::uint64_t>(left, kReadAhead)));
        if (n == 0)
          throw source_.error(
              frame_begin, ErrorCode::failed,
              "the skippable frame that begins here is cut short; a part is missing or damaged");
        begin_ += n;
        left -= n;
        if (batch_.empty() && begin_ >= kReadAhead) forget_used();
      }
      continue;
    }
    // An unknown size is a huge number.
    if (header.frameContentSize > std::min(kLargestWhole, context_.memory / 8)) return Head::pieces;
    const std::size_t have = fill(frame_bound(header.frameContentSize));
    const std::size_t size = ZSTD_findFrameCompressedSize(input_.data() + begin_, have);
    // Damaged, cut short or badly compressed; decompress_piece() finds out.
    if (ZSTD_isError(size)) return Head::pieces;
    frame.begin = begin_;
    frame.size = size;
    frame.position = position();
    frame.content_size = header.frameContentSize;
    return Head::whole;
  }
}

void ZstdStream::forget_used() {
  input_.erase(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(std::exchange(begin_, 0)));
}

// Decompresses as many whole frames as threads and memory allow, more where they are small.
// False: the next frame is not such a frame, or the stream has ended.
bool ZstdStream::collect_batch() {
  forget_used();
  batch_.clear();
  given_ = 0;
  skipped_ = 0;
  const std::size_t threads = state_->decompressors.size();
  std::uint64_t content = 0;
  for (std::uint64_t memory = 0; batch_.size() < threads || memory < threads * kPiece;) {
    context_.check_stop();
    Frame frame;
    const Head kind = batch_.size() < kMostFrames ? look_at_frame(frame) : Head::end;
    if (kind == Head::pieces && batch_.empty()) {
      inside_ = true;
      piecewise_begin_ = position();
      piecewise_window_ = window_of(ConstBytes(input_).subspan(begin_));
    }
    if (kind != Head::whole) break;
    memory += frame.size + frame.content_size;
    if (!batch_.empty() && memory > context_.memory / 2) break;
    frame.content = content;
    content += frame.content_size;
    begin_ += frame.size;
    batch_.push_back(frame);
  }
  if (capacity_ < content) {
    content_.reset();
    content_ = std::make_unique_for_overwrite<std::uint8_t[]>(content);
    capacity_ = content;
  }
  parallel_for(batch_.size(), context_.threads, [&](std::size_t i, int worker) {
    const Frame& frame = batch_[i];
    try {
      state_->decompressors[static_cast<std::size_t>(worker)].decompress(
          ConstBytes(input_).subspan(frame.begin, frame.size),
          {content_.get() + frame.content, frame.content_size});
    } catch (const Error& error) {
      throw source_.error(frame.position, ErrorCode::failed,
                          fmt::format("the frame that begins here is damaged: {}", error.reason()));
    }
  });
  return !batch_.empty();
}

ConstBytes ZstdStream::decompress_piece() {
  state_->piece.resize(kPiece);
  ZSTD_outBuffer out{state_->piece.data(), state_->piece.size(), 0};
  while (inside_ && out.pos < out.size) {
    context_.check_stop();
    if (begin_ == input_.size()) {
      input_.clear();
      begin_ = 0;
      if (fill(1) == 0)
        throw source_.error(piecewise_begin_, ErrorCode::failed,
                            "the frame that begins here is cut short; a part is missing or damaged");
    }
    ZSTD_inBuffer in{input_.data() + begin_, input_.size() - begin_, 0};
    const std::size_t result = ZSTD_decompressStream(state_->context.get(), &out, &in);
    begin_ += in.pos;
    if (ZSTD_isError(result))
      throw source_.error(piecewise_begin_, ErrorCode::failed,
                          fmt::format("the frame that begins here cannot be decompressed: {}",
                                      reason(result, piecewise_window_)));
    if (result == 0) inside_ = false;
  }
  return ConstBytes(state_->piece).first(out.pos);
}

ConstBytes ZstdStream::give(ConstBytes content, std::uint64_t frame) {
  given_from_ = frame;
  const ConstBytes end = content.last(std::min<std::size_t>(content.size(), kTarEnd));
  const auto other = std::find_if(end.rbegin(), end.rend(), [](std::uint8_t byte) { return byte != 0; });
  const auto zeros = static_cast<std::uint64_t>(other - end.rbegin());
  zeros_ = zeros == content.size() ? zeros_ + zeros : zeros;
  return content;
}

ConstBytes ZstdStream::next() {
  for (;;) {
    if (given_ < batch_.size()) {
      const Frame& frame = batch_[given_++];
      if (frame.content_size != 0)
        return give({content_.get() + frame.content, frame.content_size}, frame.position);
    } else if (inside_) {
      if (const ConstBytes piece = decompress_piece(); !piece.empty()) return give(piece, piecewise_begin_);
    } else if (!collect_batch() && !inside_) {
      return {};
    }
  }
}

}  // namespace planesmith::chunks
