// The work of one thread of a build: reads an expert, converts it for each rank, passes the sections on.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "pipeline/expert_source.h"
#include "plan/plan.h"
#include "quant/backend.h"
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
  virtual ~ExpertWorker() = default;
  // Converts expert `number` of a layer into the layer's outputs. Errors: a weight or scale that is not
  // finite; errors of reading and writing.
  virtual void run(const Expert& expert, std::uint64_t number, const std::vector<OpenOutput>& outputs) = 0;
};

// Makes the worker of thread `number`. Devices get whole experts. The CPU's kernels are faster than memory,
// so they get pieces that stay in the caches from the read call to the write call.
std::unique_ptr<ExpertWorker> make_worker(Backend& backend, int number, const ExpertSource& source,
                                          const Plan& plan);
// Bytes of the buffers of one worker.
std::uint64_t worker_bytes(const Backend& backend, const ExpertSource& source, const Plan& plan);

// The sections of a rank that at least one output wants.
SectionSet wanted_sections(const std::vector<OpenOutput>& outputs, std::uint64_t rank);
// Calls use(output) for those of the rank's outputs that want the section.
template <typename Use>
void for_each_taker(const std::vector<OpenOutput>& outputs, std::uint64_t rank, format::Section section,
                    Use use) {
  for (const OpenOutput& each : outputs)
    if (each.sink->rank() == rank && each.missing[static_cast<std::size_t>(section)]) use(*each.output);
}

// The two kinds of workers.
std::unique_ptr<ExpertWorker> make_whole_worker(Backend& backend, int number, const ExpertSource& source,
                                                const Plan& plan);
std::unique_ptr<ExpertWorker> make_piece_worker(Backend& backend, const ExpertSource& source,
                                                const Plan& plan);
std::uint64_t piece_worker_bytes(const ExpertSource& source, const Plan& plan);

}  // namespace planesmith
