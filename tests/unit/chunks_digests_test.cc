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
        gate.guard(
            [&] { digests.add(i * step, bytes_of(std::string_view(stream.bytes).substr(i * step, step))); });
      });
      for (std::size_t m = 0; m < stream.digests.size(); ++m) {
        CAPTURE(stream.layout.members()[m].path);
        CHECK(digests.of(m) == stream.digests[m]);
      }
    }
}

TEST_CASE("what ended in one range can be given to a later run, which begins inside a block") {
  const Scratch scratch;
  chunks_tree::make_tree(scratch / "tree");
  put_file(scratch / "tree/dense", chunks_tree::noise(19'000'000, 5));
  const Stream stream = stream_of(scratch / "tree");
  const std::string_view bytes = stream.bytes;
  for (std::uint64_t cut = 0; cut < bytes.size(); cut += 1'234'567) {
    CAPTURE(cut);
    Gate gate;
    BlockDigests first(stream.layout, gate), second(stream.layout, gate);
    first.add(0, bytes_of(bytes.substr(0, cut)));
    const std::vector<Xxh3> ended = first.ended_in(0, cut);
    CHECK(second.give(0, cut, ended));
    std::vector<Xxh3> one_more = ended;
    one_more.emplace_back();
    CHECK(!second.give(0, cut, one_more));
    const std::uint64_t from = second.block_begin(cut);
    REQUIRE(from <= cut);
    second.add(from, bytes_of(bytes.substr(from, cut - from)));
    second.add(cut, bytes_of(bytes.substr(cut)));
    for (std::size_t m = 0; m < stream.digests.size(); ++m) CHECK(second.of(m) == stream.digests[m]);
  }
}
