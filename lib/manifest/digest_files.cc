#include "manifest/digest_files.h"

#include <fmt/format.h>
#include <string.h>

#include <algorithm>
#include <mutex>

#include "base/file.h"
#include "base/file_contents.h"
#include "base/parallel.h"
#include "base/stream.h"

namespace planesmith {
namespace {

constexpr std::uint64_t kUnit = 8 * kMiB;  // approximate bytes of a unit of work, if the file can be cut

// Blocks [first, last) of a file and the bytes [begin, end) around them; without blocks, a long gap.
struct Unit {
  std::size_t file;
  std::size_t first, last;
  std::uint64_t begin, end;
};

std::uint64_t end_of(const BlockRange& range) {
  return range.offset + range.size;
}

bool is_whole(const FileToDigest& file) {
  return file.sha256 || file.git_sha1;
}

// Adds the units of a file that can be cut. A short gap belongs to the unit of the block before it; a long
// gap is a unit of its own, checked whichever blocks are wanted.
void cut(std::vector<Unit>& units, std::size_t number, const FileToDigest& file) {
  const auto next_begin = [&](std::size_t block) {
    return block < file.ranges.size() ? file.ranges[block].offset : file.size;
  };
  const auto gap_after = [&](std::size_t block) {
    return next_begin(block + 1) - end_of(file.ranges[block]);
  };
  for (const auto& [first, last] : file.runs) {
    std::size_t begin = first;
    for (std::size_t block = first; block < last; ++block) {
      const std::uint64_t end = end_of(file.ranges[block]), gap = gap_after(block);
      if (gap <= kUnit && block + 1 < last && end - file.ranges[begin].offset < kUnit) continue;
      units.push_back({number, begin, block + 1, file.ranges[begin].offset,
                       gap <= kUnit && file.zero_gaps ? end + gap : end});
      begin = block + 1;
    }
  }
  if (!file.zero_gaps) return;
  if (next_begin(0) != 0) units.push_back({number, 0, 0, 0, next_begin(0)});
  for (std::size_t block = 0; block < file.ranges.size(); ++block)
    if (gap_after(block) > kUnit)
      units.push_back({number, 0, 0, end_of(file.ranges[block]), next_begin(block + 1)});
}

bool all_zero(ConstBytes bytes) {
  return bytes.empty() || (bytes[0] == 0 && memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0);
}

// Takes a unit's bytes in pieces of any size, front to back.
class UnitHasher {
 public:
  UnitHasher(const FileToDigest& file, const Unit& unit, std::uint64_t begin, Digested& out)
      : file_(file), out_(out), at_(begin), block_(unit.first), last_(unit.last) {
    if (file.sha256) sha256_.emplace();
    if (file.git_sha1) git_sha1_.emplace(file.size);
  }

  void take(ConstBytes piece) {
    if (sha256_) sha256_->update(piece);
    if (git_sha1_) git_sha1_->update(piece);
    while (!piece.empty()) {
      const bool in_block = block_ < last_ && at_ >= file_.ranges[block_].offset;
      const std::uint64_t until = in_block         ? end_of(file_.ranges[block_])
                                  : block_ < last_ ? file_.ranges[block_].offset
                                                   : at_ + piece.size();
      const ConstBytes now = piece.first(std::min<std::uint64_t>(piece.size(), until - at_));
      if (in_block) {
        xxh3_.update(now);
        if (at_ + now.size() == until) {
          out_.blocks.push_back(xxh3_.finish());
          ++block_;
        }
      } else if (file_.zero_gaps && !out_.nonzero_gap && !all_zero(now)) {
        const auto first = std::find_if(now.begin(), now.end(), [](std::uint8_t byte) { return byte != 0; });
        out_.nonzero_gap = at_ + static_cast<std::uint64_t>(first - now.begin());
      }
      at_ += now.size();
      piece = piece.subspan(now.size());
    }
  }

  void finish() {
    if (sha256_) out_.sha256 = hex(sha256_->finish());
    if (git_sha1_) out_.git_sha1 = hex(git_sha1_->finish());
  }

 private:
  const FileToDigest& file_;
  Digested& out_;
  std::uint64_t at_;
  std::size_t block_;
  const std::size_t last_;
  Xxh3Stream xxh3_;
  std::optional<Sha256> sha256_;
  std::optional<GitBlobSha1> git_sha1_;
};

// The first data of a gap: holes that the file system knows need not be read.
std::uint64_t skip_hole(const Context& context, const File& file, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t next = next_data(context, file, begin, end);
  context.progress.advance(next - begin);
  return next;
}

Digested digest(const Context& context, const FileToDigest& todo, const Unit& unit, Bytes buffer) {
  Digested out{.file = unit.file, .first_block = unit.first};
  try {
    const File file = File::open_read(context.os, todo.path);
    if (const std::uint64_t size = file.size(); size != todo.size)
      throw Error(todo.path, fmt::format("has {} bytes, had {} a moment ago; another process is writing it",
                                         size, todo.size));
    const bool gap = !is_whole(todo) && unit.first == unit.last;
    const std::uint64_t begin = gap ? skip_hole(context, file, unit.begin, unit.end) : unit.begin;
    UnitHasher hasher(todo, unit, begin, out);
    (is_whole(todo) ? stream_ahead : stream)(context, file, begin, unit.end - begin, buffer,
                                             [&](ConstBytes piece) { hasher.take(piece); });
    hasher.finish();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::failed) throw;
    out = {.file = unit.file, .first_block = unit.first, .failure = error};
  }
  return out;
}

}  // namespace

void digest_files(const Context& context, const std::string& stage, std::span<const FileToDigest> files,
                  const std::function<void(const Digested&)>& take) {
  std::vector<Unit> units;
  for (std::size_t i = 0; i < files.size(); ++i)
    if (is_whole(files[i])) units.push_back({i, 0, files[i].ranges.size(), 0, files[i].size});
  // Files that cannot be cut come first, in descending order of size;
  // the others keep workers busy that finish early.
  std::stable_sort(units.begin(), units.end(), [](const Unit& a, const Unit& b) { return a.end > b.end; });
  for (std::size_t i = 0; i < files.size(); ++i)
    if (!is_whole(files[i])) cut(units, i, files[i]);
  if (units.empty()) return;

  std::uint64_t total = 0;
  for (const Unit& unit : units) total += unit.end - unit.begin;
  StreamBuffers buffers(context);
  std::mutex mutex;
  context.progress.begin(stage, total);
  parallel_for(units.size(), buffers.workers(), [&](std::size_t i, int worker) {
    const Digested done = digest(context, files[units[i].file], units[i], buffers.of(worker));
    const std::lock_guard<std::mutex> lock(mutex);
    take(done);
  });
  context.progress.end();
}

}  // namespace planesmith
