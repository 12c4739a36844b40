// The jobs of translating: how a module's tensors come from those of another layout.
#pragma once

#include "rewrite/modules.h"

namespace planesmith {

Place place_of(const Checkpoint& checkpoint, const View& view);

// BF16 or F16 to F32, exactly; F32 as it is.
class WidenJob : public Job {
 public:
  WidenJob(std::string name, std::vector<std::uint64_t> shape, Place from, FloatType type);
  void run(std::size_t part, JobIo& io) const override;

 private:
  Place from_;
  FloatType type_;
};

// float32(1) / x of one number: compressed-tensors stores what modelopt's scale is the reciprocal of.
class ReciprocalJob : public Job {
 public:
  ReciprocalJob(std::string name, const std::string& tensor, Place from, FloatType type);
  void run(std::size_t part, JobIo& io) const override;

 private:
  std::string tensor_;
  Place from_;
  FloatType type_;
};
// The same rule for one who reads. Error: x is zero or not finite.
float reciprocal(float x, const std::string& path, const std::string& tensor);

// MXFP4 to NVFP4 by the closed form that modelopt uses: with k_max the largest exponent of the modules (gate
// and up together), weight_scale_2 = 2^(k_max - 8), a block's scale 2^(k - k_max + 8) for both halves of its
// 32 values, nibbles as they stand. Exact where k_max - k <= 17 or the block is all zeros.
class CastJob : public Job {
 public:
  CastJob(const Checkpoint& checkpoint, std::vector<const QuantModule*> modules, bool lossy);
  void run(std::size_t part, JobIo& io) const override;
  // Reads the scales, and nothing else but the blocks that are out of reach. Error: there are any, and how
  // many of which tensor.
  void refuse_out_of_reach(JobIo& io) const;

 private:
  static std::vector<NewTensor> tensors_of(const std::vector<const QuantModule*>& modules);
  int largest_exponent(JobIo& io) const;  // of all modules, + 127
  void convert(JobIo& io, std::size_t m, std::size_t first_tensor, int most) const;
  std::vector<const QuantModule*> modules_;
  std::vector<Place> weights_, scales_;
  bool lossy_;
};

}  // namespace planesmith
