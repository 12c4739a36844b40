// Conversion in pieces: rows are read, converted, hashed and written while in the second-level cache.
#include <algorithm>

#include "base/size.h"
#include "format/planes.h"
#include "pipeline/expert_worker.h"

namespace planesmith {
namespace {

using format::Section;
using Piece = ExpertSource::Piece;

// The planes that a matrix can have.
enum Plane { codes, nibbles, quintals, scales, kPlanes };
constexpr Section kSectionsOf[2][kPlanes] = {
    {Section::planes13, Section::fp13, Section::fpq13, Section::sc13},
    {Section::planes2, Section::fp2, Section::fpq2, Section::sc2},
};
std::uint64_t plane_bytes(int plane, std::uint64_t rows, std::uint64_t cols) {
  switch (plane) {
    case codes:
      return format::code_bytes(rows, cols);
    case nibbles:
      return format::nibble_bytes(rows, cols);
    case quintals:
      return format::quintal_bytes(rows, cols);
    default:
      return format::scale_bytes(rows, cols);
  }
}

// Columns of a rank's slice.
std::uint64_t cols_of(Projection projection, const format::RankShape& shape) {
  return projection == Projection::w2 ? shape.k2 : shape.k13;
}

// Bytes for the planes of a piece for one rank; each plane starts on a page.
std::uint64_t planes_bytes(const ExpertSource& source, const Plan& plan) {
  std::uint64_t most = 0;
  for (const Piece& piece : source.pieces()) {
    std::uint64_t bytes = 0;
    for (int plane = 0; plane < kPlanes; ++plane)
      if (plan.sections[static_cast<std::size_t>(kSectionsOf[piece.projection == Projection::w2][plane])])
        bytes += round_up(plane_bytes(plane, piece.rows, cols_of(piece.projection, plan.shape)), 4 * kKiB);
    most = std::max(most, bytes);
  }
  return most;
}

class PieceWorker : public ExpertWorker {
 public:
  PieceWorker(Backend& backend, const ExpertSource& source, const Plan& plan)
      : kernels_(*backend.kernels()),
        input_(backend.allocate(source.piece_buffer_bytes())),
        output_(backend.allocate(planes_bytes(source, plan))),
        source_(source),
        plan_(plan),
        ranks_(plan.ranks.size()) {}

  void run(const Expert& expert, std::uint64_t number, const std::vector<OpenOutput>& outputs) override {
    const Job job{expert, number, outputs, source_.load_scale_2(expert)};
    for (const int matrix : {0, 1}) convert_matrix(job, matrix);
  }

 private:
  struct Job {
    const Expert& expert;
    std::uint64_t number;
    const std::vector<OpenOutput>& outputs;
    std::array<float, kProjections> scale_2;
  };
  // The state of one rank: what earlier experts showed about its zeros, and its planes of the current matrix.
  struct Rank {
    std::uint64_t rank;
    SignsOfZeros signs[2];
    bool wanted[kPlanes];
    Xxh3Stream digests[kPlanes];
    ZeroCount zeros;
  };

  void convert_matrix(const Job& job, int matrix) {
    std::vector<Rank*> left;
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      rank.rank = plan_.ranks[i];
      const SectionSet wanted = wanted_sections(job.outputs, rank.rank);
      for (int plane = 0; plane < kPlanes; ++plane)
        rank.wanted[plane] = wanted[static_cast<std::size_t>(kSectionsOf[matrix][plane])];
      if (std::find(rank.wanted, rank.wanted + kPlanes, true) != rank.wanted + kPlanes) left.push_back(&rank);
    }
    while (!left.empty()) {  // repeated if the zeros turn out to need the other signs
      for (Rank* rank : left) rank->zeros = {};
      for (const Piece& piece : source_.pieces()) {
        if ((piece.projection == Projection::w2) != (matrix == 1)) continue;
        bool loaded = false;
        for (Rank* rank : left) {
          if (!source_.concerns(piece, rank->rank)) continue;
          if (!loaded) source_.load(job.expert, piece, input_->bytes());
          loaded = true;
          convert(job, piece, *rank, matrix);
        }
      }
      std::erase_if(left, [&](Rank* rank) { return finish(job, *rank, matrix); });
    }
  }

  // Converts a piece for a rank and writes its planes.
  void convert(const Job& job, const Piece& piece, Rank& rank, int matrix) {
    const auto p = static_cast<std::size_t>(piece.projection);
    const std::uint64_t cols = cols_of(piece.projection, plan_.shape);
    std::uint8_t* place[kPlanes] = {};
    std::uint8_t* next = output_->bytes().data();
    for (int plane = 0; plane < kPlanes; ++plane) {
      if (!rank.wanted[plane]) continue;
      place[plane] = next;
      next += round_up(plane_bytes(plane, piece.rows, cols), 4 * kKiB);
    }
    const format::ZeroMode mode = plan_.request.zero_mode;
    const PlaneTarget target{place[codes], place[nibbles], place[quintals], place[scales]};
    ZeroCount* const zeros = mode == format::ZeroMode::automatic ? &rank.zeros : nullptr;
    const Slice slice = source_.slice(piece, input_->bytes().data(), rank.rank, job.scale_2[p]);
    const std::uint64_t row = source_.first_row(piece);
    if (!convert_slice(kernels_, slice, rank.signs[matrix].choose(mode), target, zeros))
      refuse(job, piece, rank, slice);
    // w3's rows follow w1's in their matrix.
    const std::uint64_t row_in_matrix = row + (piece.projection == Projection::w3 ? plan_.shape.slice : 0);
    for (int plane = 0; plane < kPlanes; ++plane) {
      if (!rank.wanted[plane]) continue;
      const ConstBytes bytes(place[plane], plane_bytes(plane, piece.rows, cols));
      rank.digests[plane].update(bytes);
      const Section section = kSectionsOf[matrix][plane];
      for_each_taker(job.outputs, rank.rank, section, [&](LayerOutput& output) {
        output.write(job.number, section, plane_bytes(plane, row_in_matrix, cols), bytes);
      });
    }
  }

  // Finishes a rank's sections; false: they must be made again.
  bool finish(const Job& job, Rank& rank, int matrix) {
    const bool right = rank.signs[matrix].settle(plan_.request.zero_mode, rank.zeros);
    for (int plane = 0; plane < kPlanes; ++plane) {
      if (!rank.wanted[plane]) continue;
      const Xxh3 digest = rank.digests[plane].finish();
      const Section section = kSectionsOf[matrix][plane];
      if (right)
        for_each_taker(job.outputs, rank.rank, section,
                       [&](LayerOutput& output) { output.finish(job.number, section, digest); });
    }
    return right;
  }

  [[noreturn]] void refuse(const Job& job, const Piece& piece, const Rank& rank, const Slice& slice) const {
    BadElement bad{piece.projection, find_nonfinite(slice)};
    bad.where.row += source_.first_row(piece) / (bad.where.in_scale ? source_.scale_block_rows() : 1);
    source_.refuse(job.expert, rank.rank, bad);
  }

  const Kernels& kernels_;
  std::unique_ptr<Buffer> input_, output_;
  const ExpertSource& source_;
  const Plan& plan_;
  std::vector<Rank> ranks_;
};

}  // namespace

std::unique_ptr<ExpertWorker> make_piece_worker(Backend& backend, const ExpertSource& source,
                                                const Plan& plan) {
  return std::make_unique<PieceWorker>(backend, source, plan);
}

std::uint64_t piece_worker_bytes(const ExpertSource& source, const Plan& plan) {
  return source.piece_buffer_bytes() + planes_bytes(source, plan);
}

}  // namespace planesmith
