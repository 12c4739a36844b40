// Tar headers, and which byte of the stream belongs to what.
#include <doctest/doctest.h>

#include "base/error.h"
#include "chunks/layout.h"
#include "chunks/tar.h"

using namespace planesmith;
using namespace planesmith::chunks;

namespace {

Member file_of(const std::string& path, std::uint64_t size) {
  Member member{.path = path, .mode = 0644, .size = size};
  append_extent(member.extents, 0, size);
  return member;
}

Member sparse_of(const std::string& path, std::uint64_t size,
                 std::vector<std::pair<std::uint64_t, std::uint64_t>> data) {
  Member member{.path = path, .mode = 0600, .size = size};
  for (const auto& [offset, n] : data) append_extent(member.extents, offset, n);
  return member;
}

std::vector<Member> some_members() {
  std::vector<Member> members;
  members.push_back({.path = "a", .type = MemberType::directory, .mode = 0755});
  members.push_back(file_of("a/empty", 0));
  members.push_back(file_of("a/f", 1000));
  members.push_back(file_of("a/" + std::string(180, 'l') + "/" + std::string(90, 'm'), 512));
  members.push_back(file_of("a/n\xc3\xa4me-\xe2\x82\xac", 3));
  members.push_back(
      {.path = "a/link", .type = MemberType::symlink, .mode = 0777, .target = "../" + std::string(150, 't')});
  members.push_back({.path = "a/other", .type = MemberType::hardlink, .mode = 0644, .target = "a/f"});
  members.push_back(sparse_of("a/s1", 300'000, {{65536, 65536}}));
  members.push_back(sparse_of("a/s2", 300'000, {{0, 65536}, {131072, 10}, {196608, 103'392}}));
  members.push_back(sparse_of("a/s3", 1 << 20, {}));
  members.push_back(file_of("a/large", 10'000'000'000));
  return members;
}

}  // namespace

TEST_CASE("a parsed header equals what it was made from") {
  for (const Member& member : some_members()) {
    CAPTURE(member.path);
    const std::string header = tar_header(member);
    CHECK(header.size() % kTarBlock == 0);
    CHECK(header == tar_header(member));
    const Member read = parse_tar_header(header);
    CHECK(read.path == member.path);
    CHECK(read.type == member.type);
    CHECK(read.mode == member.mode);
    CHECK(read.size == member.size);
    CHECK(read.target == member.target);
    CHECK(read.extents == member.extents);
  }
}

TEST_CASE("bytes that are not a header are refused") {
  const std::string header = tar_header(file_of("f", 5));
  CHECK_THROWS_AS(parse_tar_header(""), Error);
  CHECK_THROWS_AS(parse_tar_header(std::string(1024, '\0')), Error);
  CHECK_THROWS_AS(parse_tar_header(std::string(512, 'x')), Error);
  std::string damaged = header;
  damaged[0] ^= 1;
  CHECK_THROWS_AS(parse_tar_header(damaged), Error);
}

TEST_CASE("pieces cover every range of the stream exactly once, in order") {
  const Layout layout = Layout::arrange(some_members());
  const std::uint64_t tail = layout.size() - (1 << 20);  // the large file is not walked through byte by byte
  for (const std::uint64_t step :
       {std::uint64_t{100}, std::uint64_t{512}, std::uint64_t{4096}, std::uint64_t{1} << 40}) {
    std::vector<std::uint64_t> data(layout.members().size(), 0), headers(layout.members().size(), 0);
    for (std::uint64_t at = 0; at < layout.size(); at += step) {
      if (step < 1000 && at > 300'000 && at < tail) at = tail - tail % step;
      const std::uint64_t size = std::min(step, layout.size() - at);
      std::uint64_t next = at;
      bool fine = true;
      layout.visit(at, size, [&](const Piece& piece) {
        fine = fine && piece.stream_offset == next && piece.size > 0;
        next += piece.size;
        if (piece.kind == Piece::Kind::padding) return;
        const Member& member = layout.members()[piece.member];
        fine = fine && layout.member_at(piece.stream_offset) == piece.member;
        if (piece.kind == Piece::Kind::header) {
          fine = fine && piece.stream_offset == member.offset + piece.offset;
          headers[piece.member] += piece.size;
        } else {
          fine = fine && piece.stream_offset == member.stream_offset(piece.offset);
          data[piece.member] += piece.size;
        }
      });
      REQUIRE(fine);
      REQUIRE(next == at + size);
    }
    for (std::size_t m = 0; m < data.size(); ++m) {
      const Member& member = layout.members()[m];
      CAPTURE(member.path);
      CHECK(headers[m] == member.data_offset - member.offset);
      if (step >= 1000 || member.size < 2'000'000) CHECK(data[m] == member.data_size());
    }
  }
}

TEST_CASE("members that do not fit together are refused") {
  const Layout good = Layout::arrange(some_members());
  const auto refused = [&](auto change) {
    std::vector<Member> members = good.members();
    std::uint64_t size = good.size();
    CHECK_NOTHROW(Layout(members, size));
    change(members, size);
    CHECK_THROWS_AS(Layout(members, size), Error);
  };
  refused([](auto&, auto& size) { size -= 1; });
  refused([](auto& members, auto&) { members[2].offset += 512; });
  refused([](auto& members, auto&) { members[2].data_offset += 1; });
  refused([](auto& members, auto&) { members[2].data_offset = members[2].offset; });
  refused([](auto& members, auto&) { members[2].extents[0].size += 512; });
  refused([](auto& members, auto&) { members[2].size = ~std::uint64_t{0}; });
  refused([](auto& members, auto&) { members[0].size = 1; });
  refused([](auto& members, auto&) { members[8].extents[1].offset = 65535; });
  refused([](auto& members, auto&) { members[8].extents[1].packed += 1; });
  refused([](auto& members, auto&) { members[8].extents[2].offset = ~std::uint64_t{0}; });
  refused([](auto& members, auto&) { std::swap(members[1], members[2]); });
  refused([](auto& members, auto&) {
    members.pop_back();
    members.pop_back();
    members.erase(members.begin());
  });
}

TEST_CASE("a directory comes right before what is in it") {
  CHECK(path_less("a", "a/b"));
  CHECK(path_less("a/b", "a-b"));
  CHECK(path_less("a/b", "a.b"));
  CHECK(!path_less("a-b", "a/b"));
  CHECK(!path_less("a", "a"));
  CHECK(path_less("a/z", "a\x01"));
}
