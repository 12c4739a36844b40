#include "pipeline/expert_worker.h"

#include <algorithm>

#include "format/planes.h"

namespace planesmith {
namespace {

using format::Section;

// The sections that the planes of w1 and w3, and those of w2, belong to; indexed by Plane.
constexpr Section kSectionsOf[2][std::size(kPlanes)] = {
    {Section::planes13, Section::fp13, Section::fpq13, Section::sc13},
    {Section::planes2, Section::fp2, Section::fpq2, Section::sc2},
};
Section section_of(int matrix, Plane plane) {
  return kSectionsOf[matrix][static_cast<std::size_t>(plane)];
}
int matrix_of(Projection projection) {
  return projection == Projection::w2 ? 1 : 0;
}

// Columns of a rank's slice.
std::uint64_t cols_of(Projection projection, const format::RankShape& shape) {
  return projection == Projection::w2 ? shape.k2 : shape.k13;
}

// The largest buffers that a piece needs: for its weights and scales, for its planes of one rank.
struct BufferBytes {
  std::uint64_t input = 0, output = 0;
};
BufferBytes buffer_bytes(const std::vector<ExpertSource::Piece>& pieces, const ExpertSource& source,
                         const Plan& plan) {
  BufferBytes most;
  for (const ExpertSource::Piece& piece : pieces) {
    PlaneSet wanted;
    for (const Plane plane : kPlanes)
      wanted[plane] = plan.sections[static_cast<std::size_t>(section_of(matrix_of(piece.projection), plane))];
    most.input = std::max(most.input, source.buffer_bytes(piece));
    most.output =
        std::max(most.output, PlaneLayout(wanted, piece.rows, cols_of(piece.projection, plan.shape)).bytes());
  }
  return most;
}

// Calls use(output) for those of the rank's outputs that want the section.
template <typename Use>
void for_each_taker(const std::vector<OpenOutput>& outputs, std::uint64_t rank, Section section, Use use) {
  for (const OpenOutput& each : outputs)
    if (each.sink->rank() == rank && each.missing[static_cast<std::size_t>(section)]) use(*each.output);
}

}  // namespace

struct ExpertWorker::Job {
  const Expert& expert;
  std::uint64_t number;
  const std::vector<OpenOutput>& outputs;
  std::array<float, kProjections> scale_2;
  int matrix;
};

ExpertWorker::ExpertWorker(Backend& backend, int number, const ExpertSource& source, const Plan& plan)
    : backend_(backend),
      source_(source),
      plan_(plan),
      pieces_(source.pieces(backend.pieces().bytes)),
      ranks_(plan.ranks.size()),
      converter_(backend.make_converter(number)) {
  const auto [input, output] = buffer_bytes(pieces_, source, plan);
  for (std::size_t i = 0; i < backend.pieces().in_flight; ++i) {
    inputs_.push_back(backend.allocate(input));
    outputs_.push_back(backend.allocate(output));
  }
}

std::uint64_t ExpertWorker::bytes(const Backend& backend, const ExpertSource& source, const Plan& plan) {
  const auto [input, output] = buffer_bytes(source.pieces(backend.pieces().bytes), source, plan);
  return backend.pieces().in_flight * (input + output);
}

void ExpertWorker::run(const Expert& expert, std::uint64_t number, const std::vector<OpenOutput>& outputs) {
  const std::array<float, kProjections> scale_2 = source_.load_scale_2(expert);
  for (const int matrix : {0, 1}) convert_matrix({expert, number, outputs, scale_2, matrix});
}

void ExpertWorker::convert_matrix(const Job& job) {
  std::vector<Rank*> left;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    Rank& rank = ranks_[i];
    rank.rank = plan_.ranks[i];
    bool any = false;
    for (const Plane plane : kPlanes) {
      rank.wanted[plane] = false;
      for_each_taker(job.outputs, rank.rank, section_of(job.matrix, plane),
                     [&](LayerOutput&) { rank.wanted[plane] = any = true; });
    }
    if (any) left.push_back(&rank);
  }
  const auto make_room = [&] {
    if (started_.size() == inputs_.size()) take_oldest(job);
  };
  while (!left.empty()) {  // repeated if the zeros turn out to need the other signs
    for (Rank* rank : left) rank->zeros = {};
    for (const Piece& piece : pieces_) {
      if (matrix_of(piece.projection) != job.matrix) continue;
      const Buffer* input = nullptr;
      for (Rank* rank : left) {
        if (!source_.concerns(piece, rank->rank)) continue;
        make_room();
        if (input == nullptr) {
          // Each buffer has had a piece started since this one was last used, so it is free.
          input = inputs_[next_input_++ % inputs_.size()].get();
          source_.load(job.expert, piece, input->bytes());
        }
        start(job, piece, *rank, input->bytes());
      }
    }
    while (!started_.empty()) take_oldest(job);
    std::erase_if(left, [&](Rank* rank) { return finish(job, *rank); });
  }
}

void ExpertWorker::start(const Job& job, const Piece& piece, Rank& rank, ConstBytes input) {
  const format::ZeroMode mode = plan_.request.zero_mode;
  const Slice slice =
      source_.slice(piece, input.data(), rank.rank, job.scale_2[static_cast<std::size_t>(piece.projection)]);
  const Bytes planes = outputs_[next_output_++ % outputs_.size()]->bytes();
  converter_->start(slice, rank.signs[job.matrix].choose(mode), mode == format::ZeroMode::automatic,
                    rank.wanted, planes);
  started_.push_back({&piece, &rank, slice, planes});
}

// Hashes and writes the planes of the piece that was started first.
void ExpertWorker::take_oldest(const Job& job) {
  const Started started = started_.front();
  started_.pop_front();
  const Piece& piece = *started.piece;
  const Converter::Converted converted = converter_->finish();
  if (!converted.finite) refuse(job, started);
  Rank& rank = *started.rank;
  rank.zeros += converted.zeros;
  const PlaneLayout layout(rank.wanted, started.slice);
  const std::uint64_t cols = cols_of(piece.projection, plan_.shape);
  // w3's rows follow w1's in their matrix.
  const std::uint64_t row =
      source_.first_row(piece) + (piece.projection == Projection::w3 ? plan_.shape.slice : 0);
  for (const Plane plane : kPlanes) {
    if (!rank.wanted[plane]) continue;
    const ConstBytes bytes = layout.plane(plane, started.planes);
    rank.digests[plane].update(bytes);
    const Section section = section_of(job.matrix, plane);
    for_each_taker(job.outputs, rank.rank, section, [&](LayerOutput& output) {
      output.write(job.number, section, plane_bytes(plane, row, cols), bytes);
    });
  }
}

// Finishes a rank's sections; false: they must be made again.
bool ExpertWorker::finish(const Job& job, Rank& rank) {
  const bool right = rank.signs[job.matrix].settle(plan_.request.zero_mode, rank.zeros);
  for (const Plane plane : kPlanes) {
    if (!rank.wanted[plane]) continue;
    const Xxh3 digest = rank.digests[plane].finish();
    const Section section = section_of(job.matrix, plane);
    if (right)
      for_each_taker(job.outputs, rank.rank, section,
                     [&](LayerOutput& output) { output.finish(job.number, section, digest); });
  }
  return right;
}

void ExpertWorker::refuse(const Job& job, const Started& started) const {
  const Piece& piece = *started.piece;
  BadElement bad{piece.projection, find_nonfinite(started.slice)};
  bad.where.row += source_.first_row(piece) / (bad.where.in_scale ? source_.scale_block_rows() : 1);
  source_.refuse(job.expert, started.rank->rank, bad);
}

}  // namespace planesmith
