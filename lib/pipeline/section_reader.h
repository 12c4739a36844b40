// Reads sections of a planes cache in pieces: what is read is hashed, converted and passed on while it is in
// the core's second-level cache. Whole sections (4 to 8 MiB) would go through memory three times.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/file.h"
#include "base/hash.h"
#include "base/size.h"
#include "format/planes.h"
#include "quant/kernels.h"

namespace planesmith {

class SectionReader {
 private:
  static constexpr std::uint64_t kStored = 256 * kKiB, kTiles = kStored / format::kNibbleTile;
  static_assert(kStored % format::kNibbleTile == 0, "pieces of nibble planes are whole tiles");
  // Vector loads that cross cache lines would cost the hashes a third of their speed.
  struct alignas(4 * kKiB) Buffers {
    std::uint8_t stored[kStored], codes[kTiles * format::kCodeTile], quintals[kTiles * format::kQuintalTile];
  };

 public:
  static constexpr std::uint64_t kMemory = sizeof(Buffers);
  explicit SectionReader(const Kernels& kernels) : kernels_(kernels) {}

  // Gets the bytes of the pack's section that a piece gives, and their offset in that section.
  using Take = std::function<void(std::uint64_t offset, ConstBytes bytes)>;
  struct Digests {
    Xxh3 stored;  // of the bytes that were read
    Xxh3 made;    // of the bytes that `take` got
    Xxh3 codes;   // with `derive`: of the 2-bit planes that belong to the nibble planes
  };
  // Reads the n bytes at `offset` of a part. derive: they are nibble planes, and quintal planes are made of
  // them. Nothing is verified before the last piece is passed on. Errors: those of File::read() and `take`.
  Digests read(const File& part, std::uint64_t offset, std::uint64_t n, bool derive, const Take& take);

 private:
  const Kernels& kernels_;
  // Not initialized, so that pages land on the memory node of the thread that reads first.
  std::unique_ptr<Buffers> buffers_ = std::make_unique_for_overwrite<Buffers>();
};

}  // namespace planesmith
