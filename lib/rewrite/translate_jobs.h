// The jobs of translate: each makes tensors of a module from those of another layout.
#pragma once

#include "rewrite/modules.h"

namespace planesmith {

Place place_of(const Checkpoint& checkpoint, const View& view);

// BF16 or F16 to F32, exactly; F32 unchanged.
class WidenJob : public Job {
 public:
  WidenJob(std::string name, std::vector<std::uint64_t> shape, Place from, FloatType type);
  void run(std::size_t part, JobIo& io) const override;

 private:
  Place from_;
  FloatType type_;
};

// 1 / x of one number in float32: compressed-tensors stores the reciprocal of modelopt's scale.
class ReciprocalJob : public Job {
 public:
  ReciprocalJob(std::string name, const std::string& tensor, Place from, FloatType type);
  void run(std::size_t part, JobIo& io) const override;

 private:
  std::string tensor_;
  Place from_;
  FloatType type_;
};
// 1 / x in float32. Error: x or the result is not finite.
float reciprocal(float x, const std::string& path, const std::string& tensor);

// MXFP4 to NVFP4 by the closed form that modelopt uses: with k_max the largest exponent of the modules (gate
// and up together), weight_scale_2 = 2^(k_max - 8), a block's scale 2^(k - k_max + 8) for both halves of its
// 32 values, nibbles unchanged. Exact where k_max - k <= 17 or the block is all zeros.
class CastJob : public Job {
 public:
  CastJob(const Checkpoint& checkpoint, std::vector<const QuantModule*> modules, bool lossy);
  void run(std::size_t part, JobIo& io) const override;
  // Reads the scales, and the nibbles of the blocks that are out of range. Error: such a block is not all
  // zeros; says how many there are.
  void refuse_out_of_reach(JobIo& io) const;

 private:
  static std::vector<NewTensor> tensors_of(const std::vector<const QuantModule*>& modules);
  int largest_exponent(JobIo& io) const;  // of all modules, biased by 127
  void convert(JobIo& io, std::size_t m, std::size_t first_tensor, int most) const;
  std::vector<const QuantModule*> modules_;
  std::vector<Place> weights_, scales_;
  bool lossy_;
};

}  // namespace planesmith
