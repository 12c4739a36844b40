#include "pipeline/expert_worker.h"

#include <algorithm>

#include "base/size.h"

namespace planesmith {
namespace {

using format::Section;

// Converts whole experts: has buffers for one expert and for one rank's sections of it.
class WholeWorker : public ExpertWorker {
 public:
  WholeWorker(Backend& backend, int number, const ExpertSource& source, const Plan& plan)
      : converter_(backend.make_converter(number)),
        input_(backend.allocate(source.buffer_bytes())),
        output_(backend.allocate(plan.output_per_rank)),
        source_(source),
        plan_(plan) {
    std::uint64_t at = 0;
    for (std::size_t s = 0; s < format::kSections; ++s) {
      if (!plan.sections[s]) continue;
      const std::uint64_t bytes = section_bytes(static_cast<Section>(s), plan.shape);
      place_[s] = output_->bytes().subspan(at, bytes);
      at += round_up(bytes, 4 * kKiB);
    }
  }

  void run(const Expert& expert, std::uint64_t number, const std::vector<OpenOutput>& outputs) override {
    const ExpertSource::Loaded loaded = source_.load(expert, input_->bytes());
    for (const std::uint64_t rank : plan_.ranks) {
      const SectionSet wanted = wanted_sections(outputs, rank);
      if (wanted == SectionSet{}) continue;
      SectionTargets targets{};
      for (std::size_t s = 0; s < format::kSections; ++s)
        if (wanted[s]) targets[s] = place_[s].data();
      if (const auto bad =
              converter_->convert(source_.slices(loaded, rank), plan_.request.zero_mode, targets))
        source_.refuse(expert, rank, *bad);
      for (std::size_t s = 0; s < format::kSections; ++s) {
        if (!wanted[s]) continue;
        const auto section = static_cast<Section>(s);
        for (std::uint64_t at = 0; at < place_[s].size(); at += kPiece) {
          const Bytes piece = place_[s].subspan(at, std::min(kPiece, place_[s].size() - at));
          digest_.update(piece);
          for_each_taker(outputs, rank, section,
                         [&](LayerOutput& output) { output.write(number, section, at, piece); });
        }
        const Xxh3 digest = digest_.finish();
        for_each_taker(outputs, rank, section,
                       [&](LayerOutput& output) { output.finish(number, section, digest); });
      }
    }
  }

 private:
  // Small enough to be hashed and written while it is in the second-level cache.
  static constexpr std::uint64_t kPiece = 256 * kKiB;

  std::unique_ptr<Converter> converter_;
  std::unique_ptr<Buffer> input_, output_;
  const ExpertSource& source_;
  const Plan& plan_;
  std::array<Bytes, format::kSections> place_;
  Xxh3Stream digest_;
};

}  // namespace

SectionSet wanted_sections(const std::vector<OpenOutput>& outputs, std::uint64_t rank) {
  SectionSet wanted{};
  for (std::size_t s = 0; s < wanted.size(); ++s)
    for_each_taker(outputs, rank, static_cast<Section>(s), [&](LayerOutput&) { wanted[s] = true; });
  return wanted;
}

std::unique_ptr<ExpertWorker> make_whole_worker(Backend& backend, int number, const ExpertSource& source,
                                                const Plan& plan) {
  return std::make_unique<WholeWorker>(backend, number, source, plan);
}

std::unique_ptr<ExpertWorker> make_worker(Backend& backend, int number, const ExpertSource& source,
                                          const Plan& plan) {
  return backend.kernels() != nullptr ? make_piece_worker(backend, source, plan)
                                      : make_whole_worker(backend, number, source, plan);
}

std::uint64_t worker_bytes(const Backend& backend, const ExpertSource& source, const Plan& plan) {
  return backend.kernels() != nullptr ? piece_worker_bytes(source, plan)
                                      : source.buffer_bytes() + plan.output_per_rank;
}

}  // namespace planesmith
