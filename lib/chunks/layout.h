// The layout of the whole tar stream: what each byte belongs to.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "chunks/member.h"

namespace planesmith::chunks {

// A range of the stream of one kind.
struct Piece {
  enum class Kind { header, data, padding };  // padding: zeros after a member's data, and the end of the tar
  Kind kind = Kind::padding;
  std::size_t member = 0;  // header and data: the member's number
  std::uint64_t stream_offset = 0, size = 0;
  std::uint64_t offset = 0;  // data: in the file; header: from the member's first header byte
};

class Layout {
 public:
  // Takes members with known offsets.
  // Errors: members that overlap or leave gaps, sizes and extents that contradict each other.
  Layout(std::vector<Member> members, std::uint64_t stream_size);
  // Sets the offsets of members, in this order, for a new tar.
  static Layout arrange(std::vector<Member> members);

  std::uint64_t size() const { return size_; }
  const std::vector<Member>& members() const { return members_; }
  std::vector<Member>& members() { return members_; }

  // Shows the pieces of the stream's bytes [offset, offset + size), in order and without gaps.
  void visit(std::uint64_t offset, std::uint64_t size, const std::function<void(const Piece&)>& show) const;
  // The member whose header, data or padding has this byte; members().size(): the tar's end.
  std::size_t member_at(std::uint64_t stream_offset) const;

 private:
  std::vector<Member> members_;
  std::uint64_t size_;
};

}  // namespace planesmith::chunks
