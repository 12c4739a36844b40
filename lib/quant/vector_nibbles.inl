// Part of each file of vector kernels: counting and replacing nibbles.

constexpr std::size_t kAhead = 2048;  // bytes ahead to prefetch

void vector_histogram(const std::uint8_t* data, std::size_t n, std::uint64_t counts[16]) noexcept {
  // with[s] counts nibbles in which every bit of the set s is set. Four registers of nibbles are transposed
  // to four registers of bits, one for each bit of the nibble, so that one AND and one bit count serve all of
  // them.
  V sums[16];
  for (V& sum : sums) sum = bytes(0);
  std::size_t at = 0;
  for (; at + 4 * kV <= n; at += 4 * kV) {
    for (unsigned i = 0; i < 4 * kV; i += 64) prefetch(data + at + kAhead + i);
    V x[4], bit[4];
    for (unsigned i = 0; i < 4; ++i) x[i] = load(data + at + i * kV);
    const V pairs = bytes(0x33), singles = bytes(0x55);
    for (unsigned i = 0; i < 2; ++i) {
      const V low = bits_from(pairs, x[i], shift_left16<2>(x[i + 2]));
      const V high = bits_from(pairs, shift_right16<2>(x[i]), x[i + 2]);
      x[i] = low;
      x[i + 2] = high;
    }
    for (unsigned i = 0; i < 4; i += 2) {
      bit[i] = bits_from(singles, x[i], shift_left16<1>(x[i + 1]));
      bit[i + 1] = bits_from(singles, shift_right16<1>(x[i]), x[i + 1]);
    }
    V with[16];
    for (unsigned set = 1; set < 16; ++set) {
      const unsigned top = 31 - static_cast<unsigned>(__builtin_clz(set)), rest = set ^ 1u << top;
      with[set] = rest == 0 ? bit[top] : with[rest] & bit[top];
      sums[set] = add_bit_counts(sums[set], with[set]);
    }
  }
  std::uint64_t with[16] = {2 * at};
  for (unsigned set = 1; set < 16; ++set) {
    alignas(64) std::uint64_t parts[kV / 8];
    std::memcpy(parts, &sums[set], kV);
    for (const std::uint64_t part : parts) with[set] += part;
  }
  // From "at least these bits" to "exactly these bits".
  for (unsigned bit = 1; bit < 16; bit *= 2)
    for (unsigned set = 0; set < 16; ++set)
      if ((set & bit) == 0) with[set] -= with[set | bit];
  for (unsigned nibble = 0; nibble < 16; ++nibble) counts[nibble] += with[nibble];
  kScalarKernels.histogram(data + at, n - at, counts);
}

void vector_remap(std::uint8_t* data, std::size_t n, const std::uint8_t map[16]) noexcept {
  const V low = every_lane(load16(map)), high = shift_left16<4>(low);
  std::size_t at = 0;
  for (; at + 64 <= n; at += 64) {
    prefetch(data + at + kAhead);
    for (std::uint8_t* to = data + at; to < data + at + 64; to += kV) {
      const V x = load(to);
      store(to, of_nibbles(low, low_nibbles(x)) | of_nibbles(high, high_nibbles(x)));
    }
  }
  kScalarKernels.remap(data + at, n - at, map);
}
