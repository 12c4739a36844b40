// Block digests from the stream are those of the files, however the stream is cut up.
#include <doctest/doctest.h>

#include "base/parallel.h"
#include "chunks/block_digests.h"
#include "chunks/scan.h"
#include "chunks/stream_reader.h"
#include "chunks_tree.h"

using namespace planesmith;
using namespace planesmith::chunks;

namespace {

std::vector<Xxh3> digests_of_file(const std::string& content) {
  std::vector<Xxh3> digests;
  for (std::size_t at = 0; at < content.size(); at += kDigestBlock)
    digests.push_back(Xxh3::of(bytes_of(std::string_view(content).substr(at, kDigestBlock))));
  return digests;
}

struct Stream {
  Layout layout;
  std::string bytes;
  std::vector<std::vector<Xxh3>> digests;  // of each member, from the files
};

Stream stream_of(const std::string& root) {
  const Tree tree = scan({.sources = {root}}, Context{});
  Stream stream{Layout::arrange(tree.members), "", {}};
  stream.bytes.resize(stream.layout.size());
  read_stream(stream.layout, tree.origins, Context{}, 0,
              {reinterpret_cast<std::uint8_t*>(stream.bytes.data()), stream.bytes.size()});
  for (std::size_t m = 0; m < tree.members.size(); ++m)
    stream.digests.push_back(tree.members[m].type == MemberType::file
                                 ? digests_of_file(file_contents(tree.origins[m].path))
                                 : std::vector<Xxh3>());
  return stream;
}

}  // namespace

TEST_CASE("digests are those of the files, for any cut and number of threads") {
  const Scratch scratch;
  chunks_tree::make_tree(scratch / "tree");
  put_file(scratch / "tree/dense", chunks_tree::noise(19'000'000, 5));
  const Stream stream = stream_of(scratch / "tree");
  for (const std::size_t step :
       {std::size_t{70'000}, std::size_t{1} << 20, std::size_t{9'000'001}, std::size_t{1} << 30})
    for (const int threads : {1, 4}) {
      CAPTURE(step);
      CAPTURE(threads);
      Gate gate;
      BlockDigests digests(stream.layout, gate);
      parallel_for((stream.bytes.size() + step - 1) / step, threads, [&](std::size_t i, int) {
        gate.guard([&] {
          digests.add(i * step, bytes_of(std::string_view(stream.bytes).substr(i * step, step)),
                      {0, stream.bytes.size()});
        });
      });
      for (std::size_t m = 0; m < stream.digests.size(); ++m) {
        CAPTURE(stream.layout.members()[m].path);
        CHECK(digests.of(m) == stream.digests[m]);
      }
    }
}

TEST_CASE("ranges are digested each by itself, in any order, and what one gave can be given to a later run") {
  const Scratch scratch;
  chunks_tree::make_tree(scratch / "tree");
  put_file(scratch / "tree/dense", chunks_tree::noise(19'000'000, 5));
  const Stream stream = stream_of(scratch / "tree");
  const std::string_view bytes = stream.bytes;
  for (std::uint64_t cut = 0; cut < bytes.size(); cut += 1'234'567) {
    CAPTURE(cut);
    Gate gate;
    BlockDigests whole(stream.layout, gate), later(stream.layout, gate);
    const auto add = [&](BlockDigests& digests, std::uint64_t begin, std::uint64_t end) {
      constexpr std::uint64_t kStep = 3'000'000;
      const std::uint64_t last = digests.block_end(end);
      REQUIRE(last >= end);
      for (std::uint64_t at = begin; at < last; at += kStep)
        digests.add(at, bytes_of(bytes.substr(at, std::min(kStep, last - at))), {begin, end});
    };
    add(whole, cut, bytes.size());
    add(whole, 0, cut);
    const std::vector<Xxh3> begun = whole.begun_in(0, cut);
    CHECK(later.give(0, cut, begun));
    std::vector<Xxh3> one_more = begun;
    one_more.emplace_back();
    CHECK(!later.give(0, cut, one_more));
    add(later, cut, bytes.size());
    for (std::size_t m = 0; m < stream.digests.size(); ++m) {
      CHECK(whole.of(m) == stream.digests[m]);
      CHECK(later.of(m) == stream.digests[m]);
    }
  }
}
