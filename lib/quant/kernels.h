// The conversion kernels: rows of a checkpoint tensor to planes (FORMAT.md sections 4 and 5). One table of
// functions per instruction set; every entry gives the bytes of the scalar reference. Kernels allocate
// nothing and do no I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "format/slice.h"
#include "quant/float_errors.h"

namespace planesmith {

struct ZeroCount {
  std::uint64_t zeros = 0, negative = 0;  // elements with u == 0; those of them with the sign bit set
  ZeroCount& operator+=(const ZeroCount& other) {
    zeros += other.zeros;
    negative += other.negative;
    return *this;
  }
};

// Mode auto: whether one expert's w13 slice (or w2 slice) is balanced (FORMAT.md section 4, exact in
// integers).
PLANESMITH_HD constexpr bool one_signed(const ZeroCount& count) {
  const std::uint64_t positive = count.zeros - count.negative;
  const std::uint64_t fewer = count.negative < positive ? count.negative : positive;
  return 20 * fewer < count.zeros;
}

// Where a kernel writes. Each pointer is the start of the first 16-row panel of its plane; panels follow each
// other (a w3 slice continues where the w1 slice ended). Null: the plane is not wanted. Any alignment works;
// 64 bytes are fastest and needed for `stream`. Sizes are bytes.
struct PlaneTarget {
  std::uint8_t* codes = nullptr;     // rows * cols / 4
  std::uint8_t* nibbles = nullptr;   // rows * cols / 2
  std::uint8_t* quintals = nullptr;  // rows * cols * 5 / 16
  std::uint8_t* scales = nullptr;    // rows * cols / 32

  // Write past the caches: for planes that are not read soon, or that are larger than the caches.
  bool stream = false;
};

// Signs of exact zeros (u == 0) on output.
enum class ZeroSigns { keep, alternate };  // alternate: the sign bit is col & 1, col counted within the slice

// What --isa takes: the fastest available, or the kernels of that name.
inline constexpr std::string_view kIsas[] = {"auto", "scalar", "avx2", "avx512", "neon"};

struct Kernels {
  std::string_view name;  // one of kIsas

  // Convert a slice. Return false where the slice holds a NaN or an infinity; the target's contents are then
  // unspecified, and find_nonfinite says where. `zeros`: if not null, the zeros of the slice, before any
  // balancing, are added to it, also where no plane is wanted. A caller that guesses ZeroSigns right, from
  // the previous expert, then needs one pass for mode auto instead of two.
  bool (*mxfp4)(const Mxfp4Slice&, const PlaneTarget&) noexcept;
  bool (*fp8)(const Fp8Slice&, ZeroSigns, const PlaneTarget&, ZeroCount* zeros) noexcept;
  bool (*nvfp4)(const Nvfp4Slice&, ZeroSigns, const PlaneTarget&, ZeroCount* zeros) noexcept;

  // Makes the quintal plane and the 2-bit plane (null: not wanted) from the nibble plane of `tiles` tiles of
  // 16 x 64.
  void (*from_nibbles)(const std::uint8_t* nibbles, std::uint64_t tiles, std::uint8_t* codes,
                       std::uint8_t* quintals) noexcept;

  // Adds 1 to counts[nibble] for each of the 2 * n nibbles.
  void (*histogram)(const std::uint8_t* data, std::size_t n, std::uint64_t counts[16]) noexcept;
  // Replaces every nibble x by map[x].
  void (*remap)(std::uint8_t* data, std::size_t n, const std::uint8_t map[16]) noexcept;

  // Float weights to FP4 (quantize.h).
  // The largest magnitude; infinity or NaN where a value is one.
  float (*max_magnitude)(const FloatValues&) noexcept;
  // Values must be finite and their count divisible by the group. Write packed nibbles (count / 2 bytes) and
  // one scale byte for each group, e4m3 or e8m0. NVFP4 is rounded as modelopt does it, MXFP4 by FORMAT.md
  // section 4.
  void (*to_nvfp4)(const FloatValues&, float scale_2, std::uint8_t* nibbles, std::uint8_t* scales) noexcept;
  void (*to_mxfp4)(const FloatValues&, std::uint8_t* nibbles, std::uint8_t* scales) noexcept;
  // Adds what to_nvfp4() and the codebook cost finite weights, rows of whole blocks of 32.
  void (*add_errors)(const FloatValues&, const std::uint8_t* nibbles, const std::uint8_t* scales,
                     float scale_2, FloatErrors&) noexcept;
};

// Where the first non-finite weight or scale of a slice is; `found` false where all are finite.
struct NonFinite {
  bool found = false;
  bool in_scale = false;           // else in the weight; scale_2 of NVFP4 is checked where it is read
  std::uint64_t row = 0, col = 0;  // element of the weight slice, or row and column of the scale slice
};
NonFinite find_nonfinite(const Mxfp4Slice&) noexcept;
NonFinite find_nonfinite(const Fp8Slice&) noexcept;
NonFinite find_nonfinite(const Nvfp4Slice&) noexcept;
NonFinite find_nonfinite(const Slice&) noexcept;

// Converts a slice of any family by these kernels.
bool convert_slice(const Kernels& kernels, const Slice& slice, ZeroSigns signs, const PlaneTarget& target,
                   ZeroCount* zeros = nullptr);

extern const Kernels kScalarKernels;  // the reference
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels, kAvx512Kernels;  // only where available_kernels() has them
#elif defined(__aarch64__)
extern const Kernels kNeonKernels;
#endif

// Kernels this machine can run, slowest first; the scalar reference is always among them.
std::span<const Kernels* const> available_kernels();
// isa: one of kIsas. What this machine lacks is an Error, anything else a usage Error.
const Kernels& choose_kernels(std::string_view isa);

}  // namespace planesmith
