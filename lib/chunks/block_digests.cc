#include "chunks/block_digests.h"

#include <algorithm>
#include <array>

namespace planesmith::chunks {
namespace {

void add_zeros(Xxh3Stream& hash, std::uint64_t n) {
  static constexpr std::array<std::uint8_t, 64 << 10> kZeros{};
  for (; n != 0; n -= std::min<std::uint64_t>(n, kZeros.size()))
    hash.update(ConstBytes(kZeros).first(std::min<std::uint64_t>(n, kZeros.size())));
}

Xxh3 digest_of_zeros(std::uint64_t n) {
  Xxh3Stream hash;
  add_zeros(hash, n);
  return hash.finish();
}

}  // namespace

struct BlockDigests::Partial {
  Xxh3Stream hash;
  std::uint64_t file_at = 0;    // the file is hashed up to here
  std::uint64_t stream_at = 0;  // and its data up to here
};

BlockDigests::BlockDigests(const Layout& layout, Gate& gate) : layout_(layout), gate_(gate) {
  std::size_t count = 0;
  for (const Member& member : layout.members()) {
    first_.push_back(count);
    count += member.block_count();
  }
  digests_.resize(count);
  const Xxh3 whole_hole = digest_of_zeros(kDigestBlock);
  for (std::size_t m = 0; m < layout.members().size(); ++m) {
    if (!layout.members()[m].sparse()) continue;
    for (std::uint64_t i = 0; i < layout.members()[m].block_count(); ++i) {
      const Block b = block(m, i);
      if (b.stream_begin != b.stream_end) continue;
      const std::uint64_t size = b.file_end - b.file_begin;
      digest(b) = size == kDigestBlock ? whole_hole : digest_of_zeros(size);
    }
  }
}

BlockDigests::~BlockDigests() = default;

BlockDigests::Block BlockDigests::block(std::size_t m, std::uint64_t index) const {
  const Member& member = layout_.members()[m];
  Block b{.member = m, .index = index, .file_begin = index * kDigestBlock};
  b.file_end = std::min(b.file_begin + kDigestBlock, member.size);
  b.stream_begin = member.stream_offset(b.file_begin);
  b.stream_end = member.stream_offset(b.file_end);
  return b;
}

void BlockDigests::add(std::uint64_t stream_offset, ConstBytes bytes, Range range) {
  const std::uint64_t end = stream_offset + bytes.size();
  std::vector<Block> continued;  // at most one; last, since it waits for threads that may wait for the others
  std::size_t last_member = layout_.members().size();
  std::uint64_t next_index = 0;
  layout_.visit(stream_offset, bytes.size(), [&](const Piece& piece) {
    if (piece.kind != Piece::Kind::data) return;
    std::uint64_t index = piece.offset / kDigestBlock;
    if (piece.member == last_member) index = std::max(index, next_index);
    for (; index * kDigestBlock < piece.offset + piece.size; ++index) {
      const Block b = block(piece.member, index);
      if (b.stream_begin < range.begin || b.stream_begin >= range.end) continue;
      if (b.stream_begin < stream_offset)
        continued.push_back(b);
      else
        add_to(b, stream_offset, bytes);
    }
    last_member = piece.member;
    next_index = index;
  });
  for (const Block& b : continued) {
    auto lock = gate_.lock();
    gate_.wait(lock, [&] {
      const auto found = partial_.find(b.stream_begin);
      return found != partial_.end() && found->second && found->second->stream_at == stream_offset;
    });
    lock.unlock();
    add_to(b, stream_offset, bytes.first(std::min(end, b.stream_end) - stream_offset));
  }
}

void BlockDigests::add_to(const Block& b, std::uint64_t stream_offset, ConstBytes bytes) {
  const std::uint64_t begin = std::max(b.stream_begin, stream_offset),
                      end = std::min(b.stream_end, stream_offset + bytes.size());
  const std::uint64_t size = b.file_end - b.file_begin;
  if (end - begin == size) {
    digest(b) = Xxh3::of(bytes.subspan(begin - stream_offset, size));
    return;
  }
  std::unique_ptr<Partial> partial;
  if (begin == b.stream_begin) {
    partial = std::make_unique<Partial>();
    partial->file_at = b.file_begin;
  } else {
    const auto lock = gate_.lock();
    partial = std::move(partial_.at(b.stream_begin));
  }
  layout_.visit(begin, end - begin, [&](const Piece& piece) {
    add_zeros(partial->hash, piece.offset - partial->file_at);
    partial->hash.update(bytes.subspan(piece.stream_offset - stream_offset, piece.size));
    partial->file_at = piece.offset + piece.size;
  });
  if (end == b.stream_end) {
    add_zeros(partial->hash, b.file_end - partial->file_at);
    digest(b) = partial->hash.finish();
    const auto lock = gate_.lock();
    partial_.erase(b.stream_begin);
    return;
  }
  partial->stream_at = end;
  const auto lock = gate_.lock();
  partial_[b.stream_begin] = std::move(partial);
  gate_.changed();
}

void BlockDigests::for_begun(std::uint64_t begin, std::uint64_t end,
                             const std::function<void(std::size_t)>& show) const {
  for (std::size_t m = layout_.member_at(begin);
       m < layout_.members().size() && layout_.members()[m].offset < end; ++m)
    for (std::uint64_t i = 0; i < layout_.members()[m].block_count(); ++i) {
      const Block b = block(m, i);
      if (b.stream_begin != b.stream_end && b.stream_begin >= begin && b.stream_begin < end)
        show(first_[m] + i);
    }
}

std::vector<Xxh3> BlockDigests::begun_in(std::uint64_t begin, std::uint64_t end) const {
  std::vector<Xxh3> digests;
  for_begun(begin, end, [&](std::size_t place) { digests.push_back(digests_[place]); });
  return digests;
}

bool BlockDigests::give(std::uint64_t begin, std::uint64_t end, const std::vector<Xxh3>& digests) {
  std::size_t used = 0;
  for_begun(begin, end, [&](std::size_t place) {
    if (used < digests.size()) digests_[place] = digests[used];
    ++used;
  });
  return used == digests.size();
}

std::uint64_t BlockDigests::block_end(std::uint64_t stream_offset) const {
  std::uint64_t end = stream_offset;
  if (stream_offset >= layout_.size()) return end;
  layout_.visit(stream_offset, 1, [&](const Piece& piece) {
    if (piece.kind != Piece::Kind::data) return;
    const Block b = block(piece.member, piece.offset / kDigestBlock);
    if (b.stream_begin < stream_offset) end = b.stream_end;
  });
  return end;
}

std::vector<Xxh3> BlockDigests::of(std::size_t member) const {
  const auto begin = digests_.begin() + static_cast<std::ptrdiff_t>(first_[member]);
  return {begin, begin + static_cast<std::ptrdiff_t>(layout_.members()[member].block_count())};
}

}  // namespace planesmith::chunks
