// The digests of all members' blocks, computed from the passing tar stream.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "chunks/in_order.h"
#include "chunks/layout.h"

namespace planesmith::chunks {

class BlockDigests {
 public:
  // The layout must outlive this. The gate is that of the workers that call add().
  BlockDigests(const Layout& layout, Gate& gate);
  ~BlockDigests();

  // A range of the stream whose blocks are digested together: those that begin in it.
  struct Range {
    std::uint64_t begin = 0, end = 0;
  };
  // Adds the stream's bytes from stream_offset on, as far as they belong to blocks that
  // begin in the range. Several threads may call this for pieces that together make up
  // the range and, after it, the rest of the block that its end cuts through (block_end);
  // a block that began in an earlier piece waits until that piece has been added.
  void add(std::uint64_t stream_offset, ConstBytes bytes, Range range);
  // The end, in the stream, of the block that the stream offset cuts through;
  // the offset itself where it cuts none.
  std::uint64_t block_end(std::uint64_t stream_offset) const;

  // Digests of the blocks whose data begin in the stream range [begin, end), in order;
  // all must have been added.
  std::vector<Xxh3> begun_in(std::uint64_t begin, std::uint64_t end) const;
  // Puts back what begun_in(begin, end) returned in an earlier run. False: the number of digests is wrong.
  bool give(std::uint64_t begin, std::uint64_t end, const std::vector<Xxh3>& digests);

  // Digests of all blocks of a member; all must have been added.
  std::vector<Xxh3> of(std::size_t member) const;

 private:
  struct Partial;  // a block of which only the first part was added
  struct Block {
    std::size_t member = 0;
    std::uint64_t index = 0;                         // in the member
    std::uint64_t file_begin = 0, file_end = 0;      // in the file
    std::uint64_t stream_begin = 0, stream_end = 0;  // of its data in the stream; equal: nothing but a hole
  };
  Block block(std::size_t member, std::uint64_t index) const;
  Xxh3& digest(const Block& block) { return digests_[first_[block.member] + block.index]; }
  void add_to(const Block& block, std::uint64_t stream_offset, ConstBytes bytes);
  void for_begun(std::uint64_t begin, std::uint64_t end,
                 const std::function<void(std::size_t place)>& show) const;

  const Layout& layout_;
  Gate& gate_;
  std::vector<std::size_t> first_;  // of each member: where its blocks begin in digests_
  std::vector<Xxh3> digests_;
  std::map<std::uint64_t, std::unique_ptr<Partial>> partial_;  // by stream_begin; guarded by the gate's lock
};

}  // namespace planesmith::chunks
