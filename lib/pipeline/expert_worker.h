// The work of one thread of a build: reads an expert in pieces, converts these for each rank, hashes the
// planes and passes them on.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "base/hash.h"
#include "pipeline/expert_source.h"
#include "plan/plan.h"
#include "quant/backend.h"
#include "quant/zero_signs.h"
#include "sink/sink.h"

namespace planesmith {

// A layer's output in one sink, and the sections that it wants.
struct OpenOutput {
  Sink* sink;
  SectionSet missing;
  std::unique_ptr<LayerOutput> output;
};

class ExpertWorker {
 public:
  // number: of the thread.
  ExpertWorker(Backend& backend, int number, const ExpertSource& source, const Plan& plan);

  // Bytes of the buffers of one worker.
  static std::uint64_t bytes(const Backend& backend, const ExpertSource& source, const Plan& plan);

  // Converts expert `number` of a layer into the layer's outputs. Errors: a weight or scale that is not
  // finite; errors of reading, converting and writing, after which the worker is of no use.
  void run(const Expert& expert, std::uint64_t number, const std::vector<OpenOutput>& outputs);

  const Backend& backend() const { return backend_; }

 private:
  using Piece = ExpertSource::Piece;
  struct Job;
  // The state of one rank: what earlier experts showed about its zeros, and its planes of the current matrix.
  struct Rank {
    std::uint64_t rank;
    SignsOfZeros signs[2];
    PlaneSet wanted;
    PerPlane<Xxh3Stream> digests;
    ZeroCount zeros;
  };
  // A piece that is being converted for a rank.
  struct Started {
    const Piece* piece;
    Rank* rank;
    Slice slice;
    Bytes planes;
  };

  void convert_matrix(const Job& job);
  void start(const Job& job, const Piece& piece, Rank& rank, ConstBytes input);
  void take_oldest(const Job& job);
  bool finish(const Job& job, Rank& rank);
  [[noreturn]] void refuse(const Job& job, const Started& started) const;

  const Backend& backend_;
  const ExpertSource& source_;
  const Plan& plan_;
  const std::vector<Piece> pieces_;
  std::vector<Rank> ranks_;
  // Used in turns; one of each for every piece in flight.
  std::vector<std::unique_ptr<Buffer>> inputs_, outputs_;
  std::size_t next_input_ = 0, next_output_ = 0;
  std::deque<Started> started_;
  std::unique_ptr<Converter> converter_;  // destroyed first: it may still use the buffers
};

}  // namespace planesmith
