// Part of each file of vector kernels: errors of four columns at a time, which the compiler puts into as many
// registers as it takes.

using Four = double __attribute__((vector_size(32)));
using FourBits = std::int64_t __attribute__((vector_size(32)));
using Two = double __attribute__((vector_size(16)));

constexpr std::int64_t kSign = std::int64_t{1} << 63;

// By a byte of packed nibbles: twice the values of both, and their signs where that of a zero is its column's
// last bit.
struct ErrorTables {
  alignas(16) double twice[256][2];
  alignas(16) double alternated[256][2];  // zeros with these signs
};
constexpr ErrorTables make_error_tables() {
  ErrorTables tables{};
  for (unsigned b = 0; b < 256; ++b)
    for (unsigned i = 0; i < 2; ++i) {
      const unsigned nibble = b >> 4 * i & 15;
      const bool negative = (nibble & 8) != 0, alternate = (nibble & 7) == 0 ? i != 0 : negative;
      tables.twice[b][i] = format::twice_magnitude(nibble) * (negative ? -1. : 1.);
      tables.alternated[b][i] = alternate ? -0. : 0.;
    }
  return tables;
}
constexpr ErrorTables kErrorTables = make_error_tables();

// Pointers and references: registers of this size are not passed the same way by all compilers.
OP void look_up(const double table[256][2], const std::uint8_t* packed, Four& to) {
  Two first, second;
  std::memcpy(&first, table[packed[0]], sizeof first);
  std::memcpy(&second, table[packed[1]], sizeof second);
  to = __builtin_shufflevector(first, second, 0, 1, 2, 3);
}
OP void add_error(const Four& value, Four sums[2]) {
  sums[0] += value;
  sums[1] += value * value;
}

OP void widen_block(const FloatValues& values, std::uint64_t first, float to[kMxfp4Group]) {
  if (values.type == FloatType::f32) {
    std::memcpy(to, values.data + 4 * first, kMxfp4Group * sizeof *to);
  } else if (values.type == FloatType::f16) {
    for (unsigned c = 0; c < kMxfp4Group; ++c) to[c] = value_at(values, first + c);
  } else {
    using Halves = std::uint16_t __attribute__((vector_size(16)));
    using Words = std::uint32_t __attribute__((vector_size(32)));
    for (unsigned c = 0; c < kMxfp4Group; c += 8) {
      Halves halves;
      std::memcpy(&halves, values.data + 2 * (first + c), sizeof halves);
      const Words words = __builtin_convertvector(halves, Words) << 16;
      std::memcpy(to + c, &words, sizeof words);
    }
  }
}

void vector_add_errors(const FloatValues& weights, const std::uint8_t* nibbles, const std::uint8_t* scales,
                       float scale_2, FloatErrors& errors) noexcept {
  constexpr unsigned kHalfBytes = kNvfp4Group / 2;
  ErrorSums* const all[] = {&errors.weights, &errors.nvfp4, &errors.kept, &errors.alternated};
  Four sums[4][2];
  for (unsigned i = 0; i < 4; ++i) {
    std::memcpy(&sums[i][0], all[i]->sum, sizeof sums[i][0]);
    std::memcpy(&sums[i][1], all[i]->squares, sizeof sums[i][1]);
  }
  for (std::uint64_t block = 0; block < weights.count / kMxfp4Group; ++block) {
    alignas(32) float values[kMxfp4Group];
    widen_block(weights, block * kMxfp4Group, values);
    const std::uint8_t* const packed = nibbles + block * kMxfp4Group / 2;
    double half_scales[2];
    const double one = served_scale(packed, scales + 2 * block, scale_2, half_scales);
    const double three = 3 * one, outer = 2.5 * one;
    for (unsigned half = 0; half < 2; ++half)
      for (unsigned b = half * kHalfBytes; b < (half + 1) * kHalfBytes; b += 2) {
        using Floats = float __attribute__((vector_size(16)));
        Floats narrow;
        std::memcpy(&narrow, values + 2 * b, sizeof narrow);
        const Four w = __builtin_convertvector(narrow, Four);
        Four twice, alternated;
        look_up(kErrorTables.twice, packed + b, twice);
        look_up(kErrorTables.alternated, packed + b, alternated);
        const Four value = twice * half_scales[half];
        const FourBits sign = reinterpret_cast<FourBits>(twice) & kSign;
        const FourBits magnitude = reinterpret_cast<FourBits>(value) & ~kSign;
        const FourBits beyond = reinterpret_cast<Four>(magnitude) > outer;
        const Four threes = Four{} + three;
        const FourBits more = reinterpret_cast<FourBits>(threes) & beyond;
        const Four level = reinterpret_cast<Four>(more) + one;
        const FourBits kept = reinterpret_cast<FourBits>(level) | sign;
        const FourBits other = reinterpret_cast<FourBits>(level) | reinterpret_cast<FourBits>(alternated);
        const FourBits size = reinterpret_cast<FourBits>(w) & ~kSign;
        add_error(reinterpret_cast<Four>(size), sums[0]);
        add_error(value - w, sums[1]);
        add_error(reinterpret_cast<Four>(kept) - w, sums[2]);
        add_error(reinterpret_cast<Four>(other) - w, sums[3]);
      }
  }
  for (unsigned i = 0; i < 4; ++i) {
    std::memcpy(all[i]->sum, &sums[i][0], sizeof sums[i][0]);
    std::memcpy(all[i]->squares, &sums[i][1], sizeof sums[i][1]);
  }
}
