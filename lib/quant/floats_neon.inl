// Part of neon.cc: 16 floats in four registers, for vector_quantize.inl.

struct F {
  float32x4_t four[4];
};
// All ones or all zeros for each float; also 16 integers.
struct Whole {
  uint32x4_t four[4];
};

template <typename Result, typename Operation, typename... Argument>
OP Result each_four(const Operation& op, const Argument&... a) {
  return {{op(a.four[0]...), op(a.four[1]...), op(a.four[2]...), op(a.four[3]...)}};
}

OP V larger16(V a, V b) {
  return PAIR(16, vmaxq_u16, a, b);
}
OP V larger32(V a, V b) {
  return PAIR(32, vmaxq_u32, a, b);
}

OP F operator/(F a, F b) {
  return each_four<F>([](float32x4_t x, float32x4_t y) { return vdivq_f32(x, y); }, a, b);
}
OP F operator*(F a, F b) {
  return each_four<F>([](float32x4_t x, float32x4_t y) { return vmulq_f32(x, y); }, a, b);
}

OP float32x4_t widen_bf16(uint16x4_t halves) {
  return vreinterpretq_f32_u32(vshll_n_u16(halves, 16));
}
OP float32x4_t widen_f16(uint16x4_t halves) {
  return vcvt_f32_f16(vreinterpret_f16_u16(halves));
}
template <FloatType kType>
OP F load_floats(const std::uint8_t* from) {
  if constexpr (kType == FloatType::f32) {
    const auto at = [from](unsigned i) { return vreinterpretq_f32_u8(load16(from + 16 * i)); };
    return {{at(0), at(1), at(2), at(3)}};
  }
  const uint16x8_t low = vreinterpretq_u16_u8(load16(from)), high = vreinterpretq_u16_u8(load16(from + 16));
  const auto widen = [](uint16x4_t halves) {
    return kType == FloatType::f16 ? widen_f16(halves) : widen_bf16(halves);
  };
  return {{widen(vget_low_u16(low)), widen(vget_high_u16(low)), widen(vget_low_u16(high)),
           widen(vget_high_u16(high))}};
}
OP F get_floats(const float* from) {
  return {{vld1q_f32(from), vld1q_f32(from + 4), vld1q_f32(from + 8), vld1q_f32(from + 12)}};
}
OP void store_floats(float* to, F v) {
  for (unsigned i = 0; i < 4; ++i) vst1q_f32(to + 4 * i, v.four[i]);
}
OP F every(float x) {
  const float32x4_t four = vdupq_n_f32(x);
  return {{four, four, four, four}};
}
OP F magnitude(F v) {
  return each_four<F>([](float32x4_t x) { return vabsq_f32(x); }, v);
}
OP F larger(F a, F b) {
  return each_four<F>([](float32x4_t x, float32x4_t y) { return vmaxq_f32(x, y); }, a, b);
}
OP F smaller(F a, F b) {
  return each_four<F>([](float32x4_t x, float32x4_t y) { return vminq_f32(x, y); }, a, b);
}
OP Whole below_zero(F v) {
  return each_four<Whole>([](float32x4_t x) { return vcltzq_f32(x); }, v);
}
OP Whole sign_bit(F v) {
  return each_four<Whole>([](float32x4_t x) { return vcltzq_s32(vreinterpretq_s32_f32(x)); }, v);
}

// Element i is the largest of v[i].
OP F largest_of_each(const F v[16]) {
  const auto of_one = [v](unsigned i) {
    const F& f = v[i];
    return vmaxq_f32(vmaxq_f32(f.four[0], f.four[1]), vmaxq_f32(f.four[2], f.four[3]));
  };
  const auto of_four = [&of_one](unsigned i) {
    return vpmaxq_f32(vpmaxq_f32(of_one(i), of_one(i + 1)), vpmaxq_f32(of_one(i + 2), of_one(i + 3)));
  };
  return {{of_four(0), of_four(4), of_four(8), of_four(12)}};
}

// 16 numbers below 256 as bytes.
OP Lane narrowed(Whole v) {
  const auto words_of = [&v](unsigned i) {
    return vreinterpretq_u8_u16(
        vuzp1q_u16(vreinterpretq_u16_u32(v.four[i]), vreinterpretq_u16_u32(v.four[i + 1])));
  };
  return vuzp1q_u8(words_of(0), words_of(2));
}

// nvfp4_scale() of 16 scales: writes the bytes and returns the values.
OP F round_to_e4m3(F scale, std::uint8_t* bytes_out) {
  const auto in_range = [](float32x4_t x) {
    x = vbslq_f32(vceqzq_f32(x), vdupq_n_f32(1.f), x);
    return vminq_f32(vmaxq_f32(x, vdupq_n_f32(0x1p-9f)), vdupq_n_f32(448.f));
  };
  const auto is_subnormal = [](float32x4_t x) { return vcltq_f32(x, vdupq_n_f32(0x1p-6f)); };
  const auto units = [](float32x4_t x) { return vcvtnq_u32_f32(vmulq_n_f32(x, 0x1p9f)); };
  const auto rounded = [](float32x4_t x) {
    const uint32x4_t bits = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 20), vdupq_n_u32(1));
    return vshrq_n_u32(vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7FFFF))), 20);
  };
  const auto code = [=](float32x4_t x) {
    return vbslq_u32(is_subnormal(x), units(x), vsubq_u32(rounded(x), vdupq_n_u32(120 << 3)));
  };
  const auto value = [=](float32x4_t x) {
    return vbslq_f32(is_subnormal(x), vmulq_n_f32(vcvtq_f32_u32(units(x)), 0x1p-9f),
                     vreinterpretq_f32_u32(vshlq_n_u32(rounded(x), 20)));
  };
  scale = each_four<F>(in_range, scale);
  store16(bytes_out, narrowed(each_four<Whole>(code, scale)));
  return each_four<F>(value, scale);
}

// Whether a block needs the reference: one so small that 1e-30 matters beside amax / 6, zero excepted.
OP bool any_small(F amax) {
  const auto is_small = [](float32x4_t x) {
    return vbicq_u32(vcltq_f32(x, vdupq_n_f32(0x1p-60f)), vceqzq_f32(x));
  };
  const Whole small = each_four<Whole>(is_small, amax);
  return vmaxvq_u32((small.four[0] | small.four[1]) | (small.four[2] | small.four[3])) != 0;
}
// As in floats_avx512.inl.
OP F four_by_power(F amax, std::uint8_t* bytes_out) {
  const auto exponent = [](float32x4_t x) {
    const int32x4_t above = vsubq_s32(vreinterpretq_s32_f32(x), vdupq_n_s32(kSixRootTwo));
    return vaddq_s32(vshrq_n_s32(above, 23), vdupq_n_s32(1));
  };
  const auto byte = [=](float32x4_t x) {
    return vbicq_u32(vreinterpretq_u32_s32(vaddq_s32(exponent(x), vdupq_n_s32(127))), vceqzq_f32(x));
  };
  const auto factor = [=](float32x4_t x) {
    const int32x4_t bits = vshlq_n_s32(vsubq_s32(vdupq_n_s32(129), exponent(x)), 23);
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_s32(bits), vceqzq_f32(x)));
  };
  store16(bytes_out, narrowed(each_four<Whole>(byte, amax)));
  return each_four<F>(factor, amax);
}

// Collects 64 values and writes them as 32 bytes of nibbles.
struct Fours {
  Lane y[4];

  OP void set(unsigned i, F z, Whole negative) {
    const auto below_and_above = [](float32x4_t x, uint32x4_t sign) {
      const uint32x4_t sum = vaddq_u32(vcvtmq_u32_f32(x), vcvtpq_u32_f32(x));
      return vorrq_u32(sum, vandq_u32(sign, vdupq_n_u32(64)));
    };
    y[i] = narrowed(each_four<Whole>(below_and_above, z, negative));
  }
  OP void put(const IndexTable& table, std::uint8_t* to) const {
    const Table index(table.at);
    for (unsigned half = 0; half < 2; ++half) {
      const V packed = {y[2 * half], y[2 * half + 1]};
      store16(to + 16 * half,
              joined(index.look_up(packed & bytes(63)) | (shift_right16<3>(packed) & bytes(8))));
    }
  }
};
