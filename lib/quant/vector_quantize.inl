// Part of each file of vector kernels: float weights to FP4, 16 groups at a time. What differs between the
// instruction sets is in floats_avx2.inl, floats_avx512.inl and floats_neon.inl.
//
// With z = 4 |w| / scale every threshold of e2m1 is a whole number (1 3 5 7 10 14 20), so that
// floor(z) + ceil(z), which is even where z is whole and odd between, tells below, on and above: the place in
// an IndexTable.

constexpr unsigned kGroups = 16;      // at a time
constexpr float kBeyondLast = 22.5f;  // more than the last threshold, little enough for a table
constexpr std::uint64_t kFetchAhead = 2048;

// The values of 16 groups as floats; returns each group's largest magnitude.
template <unsigned kGroup, FloatType kType>
OP F widen_groups(const std::uint8_t* from, float* values) {
  F partial[kGroups];
  for (unsigned g = 0; g < kGroups; ++g) {
    for (unsigned part = 0; part < kGroup / 16; ++part) {
      const std::uint64_t first = g * kGroup + 16 * part;
      const F v = load_floats<kType>(from + first * bytes_of(kType));
      store_floats(values + first, v);
      partial[g] = part == 0 ? magnitude(v) : larger(partial[g], magnitude(v));
    }
    prefetch(from + kFetchAhead + g * kGroup * bytes_of(kType));
  }
  return largest_of_each(partial);
}

template <FloatType kType>
OP void nvfp4_groups(const std::uint8_t* from, float scale_2, std::uint8_t* nibbles, std::uint8_t* scales) {
  alignas(64) float values[kGroups * kNvfp4Group], quarter[kGroups];
  const F amax = widen_groups<kNvfp4Group, kType>(from, values);
  const F scale = round_to_e4m3(amax / every(6.f * scale_2), scales);
  store_floats(quarter, scale * every(scale_2) * every(.25f));
  for (unsigned g = 0; g < kGroups; g += 4) {
    Fours y;
    for (unsigned i = 0; i < 4; ++i) {
      const F w = get_floats(values + kNvfp4Group * (g + i));
      y.set(i, smaller(magnitude(w) / every(quarter[g + i]), every(kBeyondLast)), below_zero(w));
    }
    y.put(kToEven, nibbles + kNvfp4Group / 2 * g);
  }
}

template <FloatType kType>
void nvfp4_batches(const std::uint8_t* from, std::uint64_t batches, float scale_2, std::uint8_t* nibbles,
                   std::uint8_t* scales) {
  for (std::uint64_t b = 0; b < batches; ++b)
    nvfp4_groups<kType>(from + b * kGroups * kNvfp4Group * bytes_of(kType), scale_2,
                        nibbles + b * kGroups * kNvfp4Group / 2, scales + b * kGroups);
}

template <FloatType kType>
bool mxfp4_groups(const std::uint8_t* from, std::uint8_t* nibbles, std::uint8_t* scales) {
  alignas(64) float values[kGroups * kMxfp4Group], factor[kGroups];
  const F amax = widen_groups<kMxfp4Group, kType>(from, values);
  if (any_small(amax)) return false;
  store_floats(factor, four_by_power(amax, scales));
  for (unsigned g = 0; g < kGroups; g += 2) {
    Fours y;
    for (unsigned i = 0; i < 4; ++i) {
      const F w = get_floats(values + kMxfp4Group * g + 16 * i);
      y.set(i, smaller(magnitude(w) * every(factor[g + i / 2]), every(kBeyondLast)), sign_bit(w));
    }
    y.put(kToLower, nibbles + kMxfp4Group / 2 * g);
  }
  return true;
}

float vector_max_magnitude(const FloatValues& values) noexcept {
  constexpr std::uint64_t kBatch = 256;  // bytes
  const std::uint64_t bytes = values.count * bytes_of(values.type);
  V most[4] = {dwords(0), dwords(0), dwords(0), dwords(0)};
  std::uint64_t at = 0;
  for (; at + kBatch <= bytes; at += kBatch)
    for (unsigned i = 0; i < kBatch / kV; ++i) {
      const V v = load(values.data + at + i * kV);
      V& m = most[i % 4];
      m = values.type == FloatType::f32 ? larger32(m, v & dwords(0x7FFFFFFF))
                                        : larger16(m, v & words(0x7FFF));
      if (i % (64 / kV) == 0) prefetch(values.data + at + kFetchAhead + i * kV);
    }
  // The rest, and what the registers hold, which are values of the type again.
  alignas(64) std::uint8_t found[4 * kV];
  for (unsigned i = 0; i < 4; ++i) store(found + i * kV, most[i]);
  const float in_registers = scalar_max_magnitude({found, values.type, sizeof found / bytes_of(values.type)});
  const float in_rest = scalar_max_magnitude(
      values.part(at / bytes_of(values.type), values.count - at / bytes_of(values.type)));
  return in_rest > in_registers || std::isnan(in_rest) ? in_rest : in_registers;
}
