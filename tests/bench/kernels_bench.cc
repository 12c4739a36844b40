// Kernels against memcpy moving as many bytes as they read and write, data in memory, on one thread and on
// two. memcpy gets blocks so large that it writes past the caches, too: it is half as fast again then as with
// an expert at a time, which a row of its own shows.
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/machine.h"
#include "base/parallel.h"
#include "base/size.h"
#include "bench/bench.h"
#include "format/planes.h"
#include "quant/kernels.h"

namespace planesmith::bench {
namespace {

// One expert of DeepSeek-V4-Flash's size: w1, w3 [I, H] and w2 [H, I].
struct Matrix {
  std::uint64_t rows, cols;
};
constexpr Matrix kMatrices[] = {{2048, 4096}, {2048, 4096}, {4096, 2048}};
constexpr std::uint64_t kElements = 3 * 2048 * 4096;

constexpr std::uint64_t kCopyBlock = 256 * kMiB;

// Pieces of work far larger together than the caches, visited in turn, each with its input and its output.
class Pieces {
 public:
  Pieces(std::uint64_t in_bytes, std::uint64_t out_bytes)
      : in_(round_up(in_bytes, 4096)),
        out_(round_up(out_bytes, 4096)),
        bytes_(in_bytes + out_bytes),
        count_(memory() / bytes_ + 1),
        input_(std::max(count_ * in_, memory())),
        output_(std::max(count_ * out_, memory())) {
    std::uint64_t state = 1;
    for (std::uint64_t i = 0; i < input_.size(); i += 8) {
      state = state * 6364136223846793005 + 1442695040888963407;
      const std::uint64_t word = state ^ state >> 29;
      std::memcpy(input_.data() + i, &word, 8);
    }
  }
  std::uint64_t bytes() const { return bytes_; }
  std::uint64_t count() const { return count_; }
  std::uint8_t* input(std::uint64_t i) const { return input_.data() + i % count_ * in_; }
  std::uint8_t* output(std::uint64_t i) const { return output_.data() + i % count_ * out_; }
  void copy(std::uint64_t i, std::uint64_t block) const {
    const std::uint64_t at = i % (memory() / block) * block;
    std::memcpy(output_.data() + at, input_.data() + at, block);
  }

 private:
  static std::uint64_t memory() {
    const auto cache = static_cast<std::uint64_t>(std::max(sysconf(_SC_LEVEL3_CACHE_SIZE), 0L));
    return std::max(kGiB, 4 * cache);
  }
  std::uint64_t in_, out_, bytes_, count_;
  Arena input_, output_;
};

std::string row_name(const std::string& what, const Kernels& kernels, int threads) {
  return what + ", " + std::string(kernels.name) + (threads == 1 ? ", 1 thread" : ", 2 threads");
}
bool wants(const Runner& runner, const std::string& what) {  // else its data need not be made
  for (const Kernels* kernels : available_kernels())
    for (int threads : {1, 2})
      if (runner.wants(row_name(what, *kernels, threads))) return true;
  return false;
}

// Seconds that act(0), act(1), ... take on as many threads, the next ones each time.
template <typename Act>
class Turns {
 public:
  explicit Turns(Act act) : act_(std::move(act)) {}
  double operator()(int threads) {
    const std::uint64_t first = next_;
    next_ += static_cast<std::uint64_t>(threads);
    return busiest_thread(threads, [&](int worker) { act_(first + static_cast<std::uint64_t>(worker)); });
  }

 private:
  Act act_;
  std::uint64_t next_ = 0;
};

// Measures work(piece) against memcpy of as many bytes, and how both gain from a second thread.
template <typename Work>
void measure(Runner& runner, const std::string& what, const Kernels& kernels, const Pieces& pieces,
             double target, const Work& work) {
  Turns turns(work);
  Turns copies([&](std::uint64_t i) { pieces.copy(i, kCopyBlock); });
  const auto copy = [&](int threads) {
    return copies(threads) * static_cast<double>(pieces.bytes()) / (2. * kCopyBlock);
  };
  const bool slow = kernels.name == "scalar";  // and without a target
  const int most = slow ? 1 : std::min(2, hardware_threads());
  for (int threads = 1; threads <= most; ++threads)
    runner.compare(
        row_name(what, kernels, threads), static_cast<std::uint64_t>(threads) * pieces.bytes(),
        threads == 1 ? target : 0, [&] { return turns(threads); }, [&] { return copy(threads); },
        slow ? 5 : 31);
  if (most == 2)
    runner.compare(
        what + ", " + std::string(kernels.name) + ", time on 2 threads / time on 1", 0, .95,
        [&] { return turns(2) / turns(1); }, [&] { return copy(2) / copy(1); }, 31);
}

double target_for(const Kernels& kernels, double avx512, double avx2) {
  return kernels.name == "avx512" ? avx512 : kernels.name == "avx2" ? avx2 : 0;
}

// --- conversions: an expert's matrices follow one another, weights and scales in turn ---

struct Family {
  const char* name;
  std::uint64_t in_bytes;
  void (*sanitize)(std::uint8_t* expert);  // random bytes to an expert without NaN
  const std::uint8_t* (*convert)(const Kernels&, const Matrix&, const std::uint8_t* from, const PlaneTarget&,
                                 ZeroCount*);
};

const std::uint8_t* convert_mxfp4(const Kernels& kernels, const Matrix& m, const std::uint8_t* from,
                                  const PlaneTarget& to, ZeroCount*) {
  const std::uint8_t* scale = from + m.rows * m.cols / 2;
  kernels.mxfp4({m.rows, m.cols, from, m.cols / 2, scale, m.cols / 32}, to);
  return scale + m.rows * m.cols / 32;
}
void sanitize_mxfp4(std::uint8_t* expert) {
  std::replace(expert, expert + kElements / 2 + kElements / 32, std::uint8_t{255}, std::uint8_t{127});
}

const std::uint8_t* convert_fp8(const Kernels& kernels, const Matrix& m, const std::uint8_t* from,
                                const PlaneTarget& to, ZeroCount* zeros) {
  const std::uint8_t* scale = from + m.rows * m.cols;
  kernels.fp8({m.rows, m.cols, from, m.cols, scale, m.cols / 128 * 4, 128, 128, ScaleType::f32},
              ZeroSigns::keep, to, zeros);
  return scale + m.rows / 128 * (m.cols / 128) * 4;
}
void sanitize_fp8(std::uint8_t* expert) {
  for (const Matrix& m : kMatrices) {
    for (const std::uint8_t* end = expert + m.rows * m.cols; expert < end; ++expert)
      if ((*expert & 0x7F) == 0x7F) *expert ^= 1;
    for (std::uint64_t i = 0; i < m.rows / 128 * (m.cols / 128); ++i, expert += 4) {
      const float scale = 1e-4f * (1 + static_cast<float>(i % 61) / 61);
      std::memcpy(expert, &scale, 4);
    }
  }
}

const std::uint8_t* convert_nvfp4(const Kernels& kernels, const Matrix& m, const std::uint8_t* from,
                                  const PlaneTarget& to, ZeroCount* zeros) {
  const std::uint8_t* scale = from + m.rows * m.cols / 2;
  kernels.nvfp4({m.rows, m.cols, from, m.cols / 2, scale, m.cols / 16, 1.7e-4f}, ZeroSigns::keep, to, zeros);
  return scale + m.rows * m.cols / 16;
}
void sanitize_nvfp4(std::uint8_t* expert) {
  for (const Matrix& m : kMatrices) {
    expert += m.rows * m.cols / 2;
    for (const std::uint8_t* end = expert + m.rows * m.cols / 16; expert < end; ++expert)
      *expert = static_cast<std::uint8_t>(0x40 + *expert % 62);
  }
}

constexpr Family kMxfp4 = {"mxfp4", kElements / 2 + kElements / 32, sanitize_mxfp4, convert_mxfp4};
constexpr Family kFp8 = {"fp8", kElements + kElements / 4096, sanitize_fp8, convert_fp8};
constexpr Family kNvfp4 = {"nvfp4", kElements / 2 + kElements / 16, sanitize_nvfp4, convert_nvfp4};

void convert(Runner& runner, const Family& family, bool quintal, bool count_zeros, double avx512,
             double avx2) {
  const std::string what =
      std::string(family.name) + (quintal ? " quintal" : "") + (count_zeros ? " counting zeros" : "");
  if (!wants(runner, what)) return;
  const std::uint64_t fp4_share = quintal ? 5 : 8;  // of 16 bytes
  const Pieces experts(family.in_bytes, kElements / 4 + kElements / 16 * fp4_share + kElements / 32);
  for (std::uint64_t i = 0; i < experts.count(); ++i) family.sanitize(experts.input(i));
  for (const Kernels* kernels : available_kernels())
    measure(runner, what, *kernels, experts, target_for(*kernels, avx512, avx2), [&](std::uint64_t expert) {
      const std::uint8_t* from = experts.input(expert);
      std::uint8_t* to = experts.output(expert);
      const auto take = [&](std::uint64_t n) {
        std::uint8_t* at = to;
        to += n;
        return at;
      };
      ZeroCount count;
      for (const Matrix& m : kMatrices) {
        PlaneTarget target;
        target.codes = take(format::code_bytes(m.rows, m.cols));
        (quintal ? target.quintals : target.nibbles) = take(m.rows * m.cols / 16 * fp4_share);
        target.scales = take(format::scale_bytes(m.rows, m.cols));
        target.stream = true;
        from = family.convert(*kernels, m, from, target, count_zeros ? &count : nullptr);
      }
    });
}

// --- single passes over nibbles ---

void nibbles(Runner& runner) {
  if (!wants(runner, "histogram") && !wants(runner, "remap")) return;
  constexpr std::uint64_t n = 16 * kMiB;
  // A histogram only reads, a remap writes back what it read: memcpy copies as many bytes of data.
  const Pieces data(n, n);
  constexpr std::uint8_t map[16] = {0, 1, 2, 3, 4, 5, 5, 7, 8, 9, 10, 11, 12, 13, 13, 15};
  for (const Kernels* kernels : available_kernels()) {
    measure(runner, "histogram", *kernels, data, target_for(*kernels, .9, 0), [&](std::uint64_t piece) {
      std::uint64_t counts[16] = {};
      kernels->histogram(data.input(piece), n, counts);
    });
    measure(runner, "remap", *kernels, data, target_for(*kernels, .9, 0),
            [&](std::uint64_t piece) { kernels->remap(data.input(piece), n, map); });
  }
}

// --- float weights to FP4 ---

void quantize(Runner& runner) {
  constexpr std::uint64_t n = 8 << 20, bytes = 2 * n;  // a projection of DeepSeek-V4-Flash in BF16
  if (!wants(runner, "bf16 to nvfp4") && !wants(runner, "bf16 to mxfp4")) return;
  const Pieces pieces(bytes, n / 2 + n / kNvfp4Group);
  for (std::uint64_t i = 0; i < pieces.count(); ++i)
    for (std::uint64_t at = 1; at < bytes; at += 2) {  // exponents as trained weights have them
      std::uint8_t& high = pieces.input(i)[at];
      high = static_cast<std::uint8_t>((high & 0x80) | (0x3C - (high & 3)));
    }
  const auto values = [&](std::uint64_t piece) {
    return FloatValues{pieces.input(piece), FloatType::bf16, n};
  };
  for (const Kernels* kernels : available_kernels()) {
    measure(runner, "bf16 to nvfp4", *kernels, pieces, target_for(*kernels, .6, 0), [&](std::uint64_t piece) {
      kernels->to_nvfp4(values(piece), .03f / 2688, pieces.output(piece), pieces.output(piece) + n / 2);
    });
    measure(runner, "bf16 to mxfp4", *kernels, pieces, target_for(*kernels, .6, 0), [&](std::uint64_t piece) {
      kernels->to_mxfp4(values(piece), pieces.output(piece), pieces.output(piece) + n / 2);
    });
  }
}

// Another possible yardstick.
void memcpy_in_blocks(Runner& runner) {
  const std::string name = "memcpy, an expert at a time, against 256 MiB at a time, 1 thread";
  if (!runner.wants(name)) return;
  constexpr std::uint64_t expert = 16 * kMiB;
  const Pieces pieces(expert, expert);
  Turns small([&](std::uint64_t i) { pieces.copy(i, expert); });
  Turns large([&](std::uint64_t i) { pieces.copy(i, kCopyBlock); });
  runner.compare(
      name, 2 * expert, 0, [&] { return small(1); }, [&] { return large(1) * expert / kCopyBlock; }, 31);
}

}  // namespace

void kernels(Runner& runner) {
  convert(runner, kMxfp4, false, false, .9, .8);
  convert(runner, kMxfp4, true, false, .8, .8);
  convert(runner, kFp8, false, false, .8, .4);
  convert(runner, kFp8, false, true, .8, .4);
  convert(runner, kNvfp4, false, false, .65, .325);
  convert(runner, kNvfp4, false, true, .65, .325);
  nibbles(runner);
  quantize(runner);
  memcpy_in_blocks(runner);
}

}  // namespace planesmith::bench
