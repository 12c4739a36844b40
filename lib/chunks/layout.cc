#include "chunks/layout.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/size.h"
#include "chunks/tar.h"

namespace planesmith::chunks {
namespace {

constexpr std::uint64_t kMost = std::uint64_t{1} << 62;  // sums of two stay in range

void check(const Member& member, std::uint64_t expected_offset) {
  const auto refuse = [&](const char* why) { return Error(member.path, why); };
  if (member.offset != expected_offset) throw refuse("the member does not begin where the one before ends");
  if (member.size > kMost || member.data_offset > kMost) throw refuse("a size is out of bounds");
  if (member.data_offset < member.offset + kTarBlock || member.data_offset % kTarBlock != 0)
    throw refuse("the data offset is wrong");
  if (member.type != MemberType::file && (member.size != 0 || !member.extents.empty()))
    throw refuse("only files have contents");
  std::uint64_t end = 0, packed = 0;
  for (const Extent& extent : member.extents) {
    if (extent.size == 0 || extent.offset < end || extent.offset > member.size ||
        extent.size > member.size - extent.offset || extent.packed != packed)
      throw refuse("the sparse map is invalid");
    end = extent.offset + extent.size;
    packed += extent.size;
  }
}

}  // namespace

Layout::Layout(std::vector<Member> members, std::uint64_t stream_size)
    : members_(std::move(members)), size_(stream_size) {
  std::uint64_t at = 0;
  for (const Member& member : members_) {
    check(member, at);
    at = member.end();
  }
  if (at > kMost || size_ < at + kTarEnd)
    throw Error(fmt::format("the tar has {} bytes, its members need {}", size_, at + kTarEnd));
}

Layout Layout::arrange(std::vector<Member> members) {
  std::uint64_t at = 0;
  for (Member& member : members) {
    member.offset = at;
    member.data_offset = at + tar_header(member).size();
    at = member.end();
  }
  return Layout(std::move(members), at + kTarEnd);
}

std::size_t Layout::member_at(std::uint64_t stream_offset) const {
  const auto next =
      std::upper_bound(members_.begin(), members_.end(), stream_offset,
                       [](std::uint64_t at, const Member& member) { return at < member.offset; });
  if (next == members_.begin()) return members_.size();
  const auto found = next - 1;
  return stream_offset < found->end() ? static_cast<std::size_t>(found - members_.begin()) : members_.size();
}

void Layout::visit(std::uint64_t offset, std::uint64_t size,
                   const std::function<void(const Piece&)>& show) const {
  const std::uint64_t end = offset + size;
  // Shows the part of [offset, piece_end) within the requested range, and moves offset behind it.
  const auto give = [&](Piece::Kind kind, std::size_t member, std::uint64_t piece_end, std::uint64_t place) {
    const std::uint64_t n = std::min(end, piece_end) - std::min(offset, std::min(end, piece_end));
    if (n == 0) return;
    show({kind, member, offset, n, place});
    offset += n;
  };
  for (std::size_t m = member_at(offset); offset < end; ++m) {
    if (m >= members_.size()) {
      give(Piece::Kind::padding, m, end, 0);
      break;
    }
    const Member& member = members_[m];
    if (offset < member.data_offset) give(Piece::Kind::header, m, member.data_offset, offset - member.offset);
    const auto& extents = member.extents;
    auto extent = std::upper_bound(
        extents.begin(), extents.end(), offset,
        [&](std::uint64_t at, const Extent& e) { return at < member.data_offset + e.packed + e.size; });
    for (; extent != extents.end() && offset < end; ++extent) {
      const std::uint64_t begin = member.data_offset + extent->packed;
      give(Piece::Kind::data, m, begin + extent->size, extent->offset + (offset - begin));
    }
    give(Piece::Kind::padding, m, member.end(), 0);
  }
}

}  // namespace planesmith::chunks
