#include "tiers/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/size.h"

namespace planesmith {
namespace {

constexpr std::size_t kBlockRows = 64 * 1024;
// Far above every model; pairs then fit 32 bits.
constexpr std::int64_t kMostLayers = 1 << 14, kMostExperts = 1 << 14;

// The header is a Python dictionary as NumPy writes it: {'descr': '<i4', 'fortran_order': False, 'shape': (5,
// 3), }.
class HeaderText {
 public:
  explicit HeaderText(std::string_view text) : text_(text) {}
  // The text of a key's value, up to the next comma outside brackets; empty: no such key.
  std::string_view value(std::string_view key) const {
    const std::string quoted = fmt::format("'{}'", key);
    std::size_t at = text_.find(quoted);
    if (at == std::string_view::npos) return {};
    at = text_.find(':', at + quoted.size());
    if (at == std::string_view::npos) return {};
    std::size_t end = ++at;
    for (int depth = 0; end < text_.size(); ++end) {
      const char c = text_[end];
      if (c == '(') ++depth;
      if (c == ')') --depth;
      if ((c == ',' || c == '}') && depth == 0) break;
    }
    std::string_view found = text_.substr(at, end - at);
    while (!found.empty() && found.front() == ' ') found.remove_prefix(1);
    while (!found.empty() && found.back() == ' ') found.remove_suffix(1);
    return found;
  }

 private:
  std::string_view text_;
};

// "(5, 3)" gives 5; none: not the shape of rows of three numbers.
std::optional<std::uint64_t> rows_of(std::string_view shape) {
  std::uint64_t rows = 0, columns = 0;
  if (shape.size() < 2 || shape.front() != '(' || shape.back() != ')') return std::nullopt;
  const char* at = shape.data() + 1;
  const char* const end = shape.data() + shape.size() - 1;
  auto result = std::from_chars(at, end, rows);
  if (result.ec != std::errc()) return std::nullopt;
  at = result.ptr;
  while (at != end && (*at == ',' || *at == ' ')) ++at;
  result = std::from_chars(at, end, columns);
  if (result.ec != std::errc() || columns != 3) return std::nullopt;
  for (at = result.ptr; at != end; ++at)
    if (*at != ',' && *at != ' ') return std::nullopt;
  return rows;
}

template <typename Int>
std::int64_t number_at(const std::uint8_t* at) {
  Int value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

TraceFile::TraceFile(Os& os, const std::string& path) : file_(File::open_read(os, path)) {
  const auto refuse = [&](std::string reason) { return Error(path, std::move(reason)); };
  std::uint8_t start[12] = {};
  const std::size_t n = file_.read_some(start, 0);
  if (n < 10 || std::memcmp(start, "\x93NUMPY", 6) != 0)
    throw refuse("is not a NumPy array (.npy), as the engine's routing capture is").at(0);
  const bool wide = start[6] >= 2;  // version 1 has a length of two bytes, later ones of four
  const std::uint64_t length =
      wide ? start[8] | start[9] << 8 | start[10] << 16 | std::uint64_t{start[11]} << 24
           : std::uint64_t{start[8]} | std::uint64_t{start[9]} << 8;
  data_at_ = (wide ? 12 : 10) + length;
  if (length > 64 * kKiB || data_at_ > file_.size()) throw refuse("ends inside its header").at(n);
  std::string text(length, ' ');
  file_.read({reinterpret_cast<std::uint8_t*>(text.data()), text.size()}, data_at_ - length);
  const HeaderText header(text);
  const std::string_view type = header.value("descr");
  if (type == "'<i4'")
    item_ = 4;
  else if (type == "'<i8'")
    item_ = 8;
  else
    throw refuse(fmt::format("has elements of type {}; a capture has '<i4' or '<i8'", type)).at(8);
  fortran_ = header.value("fortran_order") == "True";
  const std::optional<std::uint64_t> rows = rows_of(header.value("shape"));
  if (!rows)
    throw refuse(fmt::format("has shape {}; rows of three numbers (tick, layer, expert) were expected",
                             header.value("shape")))
        .at(8);
  rows_ = *rows;
  const std::uint64_t size = file_.size(), body = size - data_at_;
  if (rows_ > body / (3 * item_) || rows_ * 3 * item_ != body)
    throw refuse(fmt::format("holds {} bytes after its header; {} rows of 3 x {} bytes were expected", body,
                             rows_, item_))
        .at(size);
}

std::uint64_t TraceFile::offset_of(std::uint64_t row) const {
  return data_at_ + row * item_ * (fortran_ ? 1 : 3);
}

void TraceFile::read(std::uint64_t first, std::span<Row> out, std::vector<std::uint8_t>& buffer) const {
  buffer.resize(out.size() * 3 * item_);
  const std::uint64_t column = out.size() * item_;
  if (fortran_)
    for (std::uint64_t c = 0; c < 3; ++c)
      file_.read({buffer.data() + c * column, column}, data_at_ + (c * rows_ + first) * item_);
  else
    file_.read(buffer, offset_of(first));
  const std::uint64_t step = fortran_ ? item_ : 3 * item_, next = fortran_ ? column : item_;
  const auto unpack = [&]<typename Int>(Int) {
    const std::uint8_t* at = buffer.data();
    for (Row& row : out) {
      row = {number_at<Int>(at), number_at<Int>(at + next), number_at<Int>(at + 2 * next)};
      at += step;
    }
  };
  if (item_ == 4)
    unpack(std::int32_t{});
  else
    unpack(std::int64_t{});
}

namespace {

// Calls take(rows, number of the first row) for each block of the file.
template <typename Take>
void for_each_block(const Context& context, const TraceFile& file, Take take) {
  std::vector<TraceFile::Row> rows;
  std::vector<std::uint8_t> buffer;
  for (std::uint64_t first = 0; first < file.rows(); first += rows.size()) {
    context.check_stop();
    rows.resize(std::min<std::uint64_t>(kBlockRows, file.rows() - first));
    file.read(first, rows, buffer);
    take(std::span<const TraceFile::Row>(rows), first);
    context.progress.advance(buffer.size());
  }
}

Error bad_row(const TraceFile& file, std::uint64_t number, const TraceFile::Row& row) {
  return Error(file.path(),
               fmt::format("row {} is [{}, {}, {}]; a tick from 0, a layer below {} and an expert below {} "
                           "were expected",
                           number, row.tick, row.layer, row.expert, kMostLayers, kMostExperts))
      .at(file.offset_of(number));
}

}  // namespace

Trace::Trace(const Context& context, const std::vector<std::string>& paths, std::uint64_t least_layers,
             std::uint64_t least_experts)
    : layers_(least_layers), experts_(least_experts) {
  std::int64_t layer = -1, expert = -1;
  for (const std::string& path : paths) {
    Session session{TraceFile(context.os, path)};
    std::int64_t least = INT64_MAX, most = -1;
    for_each_block(context, session.file, [&](std::span<const TraceFile::Row> rows, std::uint64_t first) {
      std::int64_t before = most;
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const TraceFile::Row& row = rows[i];
        if (row.tick < 0 || row.layer < 0 || row.layer >= kMostLayers || row.expert < 0 ||
            row.expert >= kMostExperts)
          throw bad_row(session.file, first + i, row);
        session.ordered &= row.tick >= before;
        before = row.tick;
        least = std::min(least, row.tick);
        most = std::max(most, row.tick);
        layer = std::max(layer, row.layer);
        expert = std::max(expert, row.expert);
      }
    });
    session.first_tick = static_cast<std::uint64_t>(most < 0 ? 0 : least);
    session.last_tick = static_cast<std::uint64_t>(std::max<std::int64_t>(most, 0));
    sessions_.push_back(std::move(session));
  }
  layers_ = std::max(layers_, static_cast<std::uint64_t>(layer + 1));
  experts_ = std::max(experts_, static_cast<std::uint64_t>(expert + 1));
}

std::uint64_t Trace::rows() const {
  std::uint64_t rows = 0;
  for (const Session& session : sessions_) rows += session.file.rows();
  return rows;
}

void Trace::for_each_tick(const Context& context, std::size_t session, const TakeTick& take) const {
  if (sessions_[session].ordered)
    in_file_order(context, sessions_[session], take);
  else
    sorted(context, sessions_[session], take);
}

void Trace::in_file_order(const Context& context, const Session& session, const TakeTick& take) const {
  std::vector<Pair> pairs;
  std::int64_t tick = -1;
  const auto finish = [&] {
    if (pairs.empty()) return;
    if (!std::is_sorted(pairs.begin(), pairs.end())) std::sort(pairs.begin(), pairs.end());
    pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
    take(static_cast<std::uint64_t>(tick), pairs);
    pairs.clear();
  };
  // A capture may name a pair many times in a tick: what repeats is dropped before it fills memory.
  const std::size_t most = std::max<std::size_t>(4 * numbers(), kBlockRows);
  for_each_block(context, session.file, [&](std::span<const TraceFile::Row> rows, std::uint64_t) {
    for (const TraceFile::Row& row : rows) {
      if (row.tick != tick) finish();
      tick = row.tick;
      pairs.push_back(static_cast<Pair>(static_cast<std::uint64_t>(row.layer) * experts_ +
                                        static_cast<std::uint64_t>(row.expert)));
      if (pairs.size() >= most) {
        std::sort(pairs.begin(), pairs.end());
        pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
      }
    }
  });
  finish();
}

void Trace::sorted(const Context& context, const Session& session, const TakeTick& take) const {
  struct Access {
    std::uint64_t tick;
    Pair pair;
  };
  // Count the rows in each stretch of ticks, to cut the file into parts that fit in memory.
  constexpr std::uint64_t kStretches = 64 * 1024;
  const std::uint64_t ticks = session.last_tick - session.first_tick + 1;
  const std::uint64_t width = (ticks + kStretches - 1) / kStretches;
  std::vector<std::uint64_t> count((ticks + width - 1) / width);
  const auto stretch = [&](const TraceFile::Row& row) {
    return (static_cast<std::uint64_t>(row.tick) - session.first_tick) / width;
  };
  for_each_block(context, session.file, [&](std::span<const TraceFile::Row> rows, std::uint64_t) {
    for (const TraceFile::Row& row : rows) ++count[stretch(row)];
  });
  const std::uint64_t fits = std::max<std::uint64_t>(context.memory / 2 / sizeof(Access), 1);
  std::vector<Access> part;
  for (std::uint64_t from = 0; from < count.size();) {
    std::uint64_t rows = count[from], to = from + 1;
    if (rows > fits)
      throw Error(
          ErrorCode::usage, session.file.path(),
          fmt::format("rows are not in order of ticks, and {} rows of neighbouring ticks do not fit in "
                      "--memory {}; the smallest that works is {}",
                      rows, context.memory, 2 * rows * sizeof(Access)));
    while (to < count.size() && rows + count[to] <= fits) rows += count[to++];
    part.clear();
    part.reserve(rows);
    for_each_block(context, session.file, [&](std::span<const TraceFile::Row> block, std::uint64_t) {
      for (const TraceFile::Row& row : block)
        if (const std::uint64_t at = stretch(row); at >= from && at < to)
          part.push_back({static_cast<std::uint64_t>(row.tick),
                          static_cast<Pair>(static_cast<std::uint64_t>(row.layer) * experts_ +
                                            static_cast<std::uint64_t>(row.expert))});
    });
    std::sort(part.begin(), part.end(), [](const Access& a, const Access& b) {
      return a.tick != b.tick ? a.tick < b.tick : a.pair < b.pair;
    });
    std::vector<Pair> pairs;
    for (std::size_t i = 0; i < part.size();) {
      const std::uint64_t tick = part[i].tick;
      pairs.clear();
      for (; i < part.size() && part[i].tick == tick; ++i)
        if (pairs.empty() || pairs.back() != part[i].pair) pairs.push_back(part[i].pair);
      take(tick, pairs);
    }
    from = to;
  }
}

}  // namespace planesmith
