// Frames from a server, in the order of their arrival.
#include "hub/hub_frames.h"

#include <doctest/doctest.h>

#include <numeric>
#include <random>
#include <set>

#include "base/size.h"
#include "range_server.h"

using namespace planesmith;
using namespace planesmith::hub;

namespace {

constexpr std::size_t kParts = 6, kFramesOfPart = 5, kFrames = kParts * kFramesOfPart;
constexpr std::uint64_t kFrame = 20 * kKiB;

std::vector<std::vector<std::uint8_t>> make_parts() {
  std::vector<std::vector<std::uint8_t>> parts(kParts, std::vector<std::uint8_t>(kFramesOfPart * kFrame));
  std::mt19937 random(11);
  for (auto& part : parts)
    for (auto& byte : part) byte = static_cast<std::uint8_t>(random());
  return parts;
}

// A set whose ranges are two or three frames each: eight connections, four threads.
struct Set {
  explicit Set(RangeServer::Rule rule, const std::vector<std::size_t>& ends = {kFrames},
               const RangeOptions& options = {.connections = 8, .memory = 512 * kKiB})
      : server(parts, std::move(rule)), source(Source::parse(server.url(""), posix())) {
    for (std::size_t f = 0; f < kFrames; ++f)
      manifest.frames.push_back(
          {.part = f / kFramesOfPart, .offset = f % kFramesOfPart * kFrame, .size = kFrame, .xxh3 = {}});
    for (std::size_t p = 0; p < kParts; ++p)
      manifest.parts.push_back({.path = std::to_string(p), .size = kFramesOfPart * kFrame});
    frames.emplace(source, "", manifest, options, context);
    std::vector<std::size_t> all(kFrames);
    std::iota(all.begin(), all.end(), 0);
    std::vector<std::span<const std::size_t>> batches;
    for (std::size_t begin = 0; const std::size_t end : ends) {
      batches.push_back(std::span(all).subspan(begin, end - begin));
      begin = end;
    }
    frames->expect(batches);
  }
  bool is_frame(std::size_t f, ConstBytes bytes) const {
    return std::ranges::equal(
        bytes, ConstBytes(parts[f / kFramesOfPart]).subspan(f % kFramesOfPart * kFrame, kFrame));
  }
  // Takes `count` frames before `end`, and tells which.
  std::set<std::size_t> take(std::size_t count, std::size_t end) {
    std::set<std::size_t> taken;
    for (std::size_t i = 0; i < count; ++i) {
      const chunks::FrameFeed::Arrived arrived = frames->next(end);
      CHECK(is_frame(arrived.f, arrived.bytes));
      CHECK(taken.insert(arrived.f).second);
      frames->done(arrived.f);
    }
    return taken;
  }

  const std::vector<std::vector<std::uint8_t>> parts = make_parts();
  RangeServer server;
  const Context context{.threads = 8};
  const Source source;
  chunks::ChunkManifest manifest{.layout = chunks::Layout::arrange({})};
  std::optional<HubFrames> frames;
};

std::set<std::size_t> all_but(std::size_t begin, std::size_t end, std::set<std::size_t> missing) {
  std::set<std::size_t> out;
  for (std::size_t f = begin; f < end; ++f)
    if (!missing.contains(f)) out.insert(f);
  return out;
}

}  // namespace

TEST_CASE("a frame that does not arrive holds up no other one, even with little memory") {
  Set set([](const RangeServer::Request& request) -> RangeServer::Reply {
    const bool first = request.path == "0" && request.begin == 0;
    return {.most = first ? kFrame + 1 : UINT64_MAX, .stalls = first};
  });
  CHECK(set.take(kFrames - 2, kFrames) == all_but(0, kFrames, {1, 2}));
}

TEST_CASE("frames of a later batch are given later") {
  Set set([](const RangeServer::Request&) -> RangeServer::Reply { return {}; }, {7, 20, kFrames});
  CHECK(set.take(7, 7) == all_but(0, 7, {}));
  CHECK(set.take(13, 20) == all_but(7, 20, {}));
  CHECK(set.take(kFrames - 20, kFrames) == all_but(20, kFrames, {}));
}

TEST_CASE("connections are spread over the parts") {
  Set set([](const RangeServer::Request&) -> RangeServer::Reply { return {.most = 1, .stalls = true}; },
          {kFrames}, {.connections = 2, .memory = 512 * kKiB});
  while (set.server.requests().size() < 2) std::this_thread::yield();
  std::set<std::string> asked;
  for (const RangeServer::Request& request : set.server.requests()) asked.insert(request.path);
  CHECK(asked == std::set<std::string>{"0", "3"});
}

// The parts that come first fill the memory, and no other may have to wait for it forever.
TEST_CASE("a server that ignores ranges, more parts than connections, and hardly any memory") {
  for (const int connections : {1, 2, 4, 8})
    for (const std::vector<std::size_t>& ends : {std::vector<std::size_t>{kFrames}, {7, 20, kFrames}}) {
      Set set([](const RangeServer::Request&) -> RangeServer::Reply { return {.status = 200}; }, ends,
              {.connections = connections, .memory = kFrame});
      std::size_t begin = 0;
      for (const std::size_t end : ends) {
        CHECK(set.take(end - begin, end) == all_but(begin, end, {}));
        begin = end;
      }
    }
}

// A transfer of a whole file that waits for memory keeps its connection, which another range may need.
TEST_CASE("a server that ignores ranges: the first range gets a connection though others wait for memory") {
  std::atomic<int> requests{0};
  Set set(
      [&](const RangeServer::Request& request) -> RangeServer::Reply {
        return {.status = request.path == "0" && requests++ < 2 ? 503 : 200};
      },
      {kFramesOfPart, kFrames}, {.connections = 2, .memory = 250 * kKiB});
  CHECK(set.take(kFramesOfPart, kFramesOfPart) == all_but(0, kFramesOfPart, {}));
  CHECK(set.take(kFrames - kFramesOfPart, kFrames) == all_but(kFramesOfPart, kFrames, {}));
}

TEST_CASE("a server that ignores ranges: a wrong frame gets a connection though all wait for memory") {
  Set set([](const RangeServer::Request&) -> RangeServer::Reply { return {.status = 200}; }, {kFrames},
          {.connections = 1, .memory = kFrame});
  for (std::size_t i = 0; i < kFrames; ++i) {
    const std::size_t f = set.frames->next(kFrames).f;
    ConstBytes bytes;
    REQUIRE(set.frames->read_again(f, bytes));
    CHECK(set.is_frame(f, bytes));
    set.frames->done(f);
  }
}

TEST_CASE("several threads get each frame once") {
  Set set([](const RangeServer::Request&) -> RangeServer::Reply { return {}; });
  std::vector<std::atomic<int>> given(kFrames);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 5; ++t)
    threads.emplace_back([&] {
      for (std::size_t i = 0; i < kFrames / 5; ++i) {
        const chunks::FrameFeed::Arrived arrived = set.frames->next(kFrames);
        given[arrived.f] += set.is_frame(arrived.f, arrived.bytes) ? 1 : 100;
        set.frames->done(arrived.f);
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& times : given) CHECK(times == 1);
}

TEST_CASE("a wrong frame is fetched again twice") {
  Set set([](const RangeServer::Request&) -> RangeServer::Reply { return {}; });
  const std::size_t f = set.frames->next(kFrames).f;
  ConstBytes bytes;
  for (int times = 0; times < 2; ++times) {
    REQUIRE(set.frames->read_again(f, bytes));
    CHECK(set.is_frame(f, bytes));
  }
  CHECK_FALSE(set.frames->read_again(f, bytes));
}
