#include "base/stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <semaphore>
#include <system_error>
#include <thread>

#include "base/budget.h"
#include "base/error.h"

namespace planesmith {

void stream(const Context& context, const File& file, std::uint64_t offset, std::uint64_t size, Bytes buffer,
            const TakePiece& take) {
  for (std::uint64_t done = 0; done < size;) {
    context.check_stop();
    const Bytes piece = buffer.first(std::min(kPiece, size - done));
    file.read(piece, offset + done);
    take(piece);
    done += piece.size();
    context.progress.advance(piece.size());
  }
}

void stream_ahead(const Context& context, const File& file, std::uint64_t offset, std::uint64_t size,
                  Bytes buffer, const TakePiece& take) {
  if (size <= kPiece) return stream(context, file, offset, size, buffer, take);
  constexpr std::uint64_t kSlots = kStreamBuffer / kPiece;
  const std::uint64_t pieces = (size + kPiece - 1) / kPiece;
  const auto slot = [&](std::uint64_t i) {
    return buffer.subspan(i % kSlots * kPiece, std::min(kPiece, size - i * kPiece));
  };
  // One more than there are slots: after a stop one extra release wakes the reader.
  std::counting_semaphore<kSlots + 1> free(kSlots), full(0);
  std::atomic<bool> abandoned{false};
  std::exception_ptr failure;  // of the reader, at piece `failed_at`, whose `full` publishes both
  std::atomic<std::uint64_t> failed_at{pieces};
  std::thread reader;
  try {
    reader = std::thread([&] {
      for (std::uint64_t i = 0; i < pieces; ++i) {
        free.acquire();
        if (abandoned) return;
        try {
          file.read(slot(i), offset + i * kPiece);
        } catch (...) {
          failure = std::current_exception();
          failed_at = i;
        }
        full.release();
        if (failed_at == i) return;
      }
    });
  } catch (const std::system_error&) {  // the system refuses another thread
    return stream(context, file, offset, size, buffer, take);
  }
  try {
    for (std::uint64_t i = 0; i < pieces; ++i) {
      context.check_stop();
      full.acquire();
      if (failed_at == i) std::rethrow_exception(failure);
      take(slot(i));
      context.progress.advance(slot(i).size());
      free.release();
    }
  } catch (...) {
    abandoned = true;
    free.release();
    reader.join();
    throw;
  }
  reader.join();
}

StreamBuffers::StreamBuffers(const Context& context) {
  workers_ = workers_within(context.memory, 0, kStreamBuffer, context.threads);
  buffers_.resize(static_cast<std::size_t>(workers_));
}

Bytes StreamBuffers::of(int worker) {
  // Vector loads that cross cache lines would cost the hashes a third of their speed.
  constexpr std::size_t kAlignment = 4096;
  std::vector<std::uint8_t>& buffer = buffers_[static_cast<std::size_t>(worker)];
  // The worker itself allocates on first use, so that pages land on its memory node.
  buffer.resize(kStreamBuffer + kAlignment);
  void* aligned = buffer.data();
  std::size_t room = buffer.size();
  return {static_cast<std::uint8_t*>(std::align(kAlignment, kStreamBuffer, aligned, room)), kStreamBuffer};
}

}  // namespace planesmith
