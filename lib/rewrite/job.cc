#include "rewrite/job.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kCopyPart = 32 * kMiB;

}  // namespace

std::uint64_t size_of(const NewTensor& tensor) {
  if (tensor.bytes != 0) return tensor.bytes;
  std::uint64_t elements = 1;
  for (const std::uint64_t n : tensor.shape) elements *= n;
  return elements * bits(tensor.dtype) / 8;
}

Place place_of(const Checkpoint& checkpoint, const Tensor& tensor, std::uint64_t offset) {
  return {&checkpoint.shard_path(tensor), tensor.offset + offset};
}

void JobIo::read(const Place& from, std::uint64_t skip, Bytes to) {
  context_.check_stop();
  if (from.path != open_path_) {
    open_path_ = nullptr;
    file_.emplace(File::open_read(context_.os, *from.path));
    open_path_ = from.path;
  }
  file_->read(to, from.offset + skip);
}

void JobIo::put_f32(std::size_t tensor, float value) {
  std::uint8_t bytes[4];
  std::memcpy(bytes, &value, sizeof value);
  put(tensor, 0, bytes);
}

Bytes JobIo::room() {
  if (!room_) room_ = backend_.allocate(kScratchBytes);
  return room_->bytes();
}

Quantizer& JobIo::quantizer() {
  if (!quantizer_) quantizer_ = backend_.make_quantizer(worker_);
  return *quantizer_;
}

CopyJob::CopyJob(NewTensor makes, Place from)
    : Job({std::move(makes)}), from_(from), size_(size_of(this->makes()[0])) {}

std::size_t CopyJob::parts() const {
  return static_cast<std::size_t>((size_ + kCopyPart - 1) / kCopyPart);
}

void CopyJob::run(std::size_t part, JobIo& io) const {
  const std::uint64_t end = std::min(size_, (part + 1) * kCopyPart);
  for (std::uint64_t at = part * kCopyPart; at < end; at += JobIo::kPieceBytes) {
    const Bytes piece = io.piece().first(std::min(JobIo::kPieceBytes, end - at));
    io.read(from_, at, piece);
    io.put(0, at, piece);
  }
}

}  // namespace planesmith
