// Part of each file of vector kernels, after vector_quantize.inl and its specializations: the entries of the
// kernel table. The reference converts what is outside the vector kernels' range, and the tails.

template <FloatType kType>
OP void nvfp4_of(const FloatValues& values, float scale_2, std::uint8_t* nibbles, std::uint8_t* scales) {
  // In this range no quotient underflows to zero (its sign is the weight's) and no scale is a subnormal
  // float.
  const bool in_range = scale_2 >= 0x1p-80f && scale_2 <= (kType == FloatType::f32 ? 0x1p-9f : 0x1p6f);
  constexpr std::uint64_t kBatch = kGroups * kNvfp4Group;
  const std::uint64_t batches = in_range ? values.count / kBatch : 0, at = batches * kBatch;
  nvfp4_batches<kType>(values.data, batches, scale_2, nibbles, scales);
  scalar_to_nvfp4(values.part(at, values.count - at), scale_2, nibbles + at / 2, scales + at / kNvfp4Group);
}

template <FloatType kType>
OP void mxfp4_of(const FloatValues& values, std::uint8_t* nibbles, std::uint8_t* scales) {
  constexpr std::uint64_t kBatch = kGroups * kMxfp4Group;
  std::uint64_t at = 0;
  for (; at + kBatch <= values.count; at += kBatch)
    if (!mxfp4_groups<kType>(values.data + at * bytes_of(kType), nibbles + at / 2, scales + at / kMxfp4Group))
      scalar_to_mxfp4(values.part(at, kBatch), nibbles + at / 2, scales + at / kMxfp4Group);
  scalar_to_mxfp4(values.part(at, values.count - at), nibbles + at / 2, scales + at / kMxfp4Group);
}

void vector_to_nvfp4(const FloatValues& values, float scale_2, std::uint8_t* nibbles,
                     std::uint8_t* scales) noexcept {
  switch (values.type) {
    case FloatType::bf16:
      return nvfp4_of<FloatType::bf16>(values, scale_2, nibbles, scales);
    case FloatType::f16:
      return nvfp4_of<FloatType::f16>(values, scale_2, nibbles, scales);
    case FloatType::f32:
      return nvfp4_of<FloatType::f32>(values, scale_2, nibbles, scales);
  }
}

void vector_to_mxfp4(const FloatValues& values, std::uint8_t* nibbles, std::uint8_t* scales) noexcept {
  switch (values.type) {
    case FloatType::bf16:
      return mxfp4_of<FloatType::bf16>(values, nibbles, scales);
    case FloatType::f16:
      return mxfp4_of<FloatType::f16>(values, nibbles, scales);
    case FloatType::f32:
      return mxfp4_of<FloatType::f32>(values, nibbles, scales);
  }
}
