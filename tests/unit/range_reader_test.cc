// Ranges over several connections on several threads, against a server that is kind, and servers that are
// not.
#include "hub/range_reader.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <map>
#include <random>

#include "base/error.h"
#include "base/size.h"
#include "range_server.h"

using namespace planesmith;
using namespace planesmith::hub;

namespace {

using Reply = RangeServer::Reply;
using Request = RangeServer::Request;
using Files = std::vector<std::vector<std::uint8_t>>;

constexpr std::uint64_t kFile = 300 * kKiB, kRange = 20 * kKiB;
constexpr std::size_t kFiles = 4;

const Files& files() {
  static const Files made = [] {
    Files out(kFiles, std::vector<std::uint8_t>(kFile));
    std::mt19937 random(7);
    for (auto& file : out)
      for (auto& byte : file) byte = static_cast<std::uint8_t>(random());
    return out;
  }();
  return made;
}

std::vector<RemoteRange> all_ranges() {
  std::vector<RemoteRange> ranges;
  for (std::size_t file = 0; file < kFiles; ++file) append_ranges(ranges, file, 0, kFile, kRange);
  return ranges;
}

ConstBytes content_of(const RemoteRange& range) {
  return ConstBytes(files()[range.file]).subspan(range.offset, range.size);
}

class Said : public Progress {
 public:
  void begin(std::string_view, std::uint64_t) override {}
  void advance(std::uint64_t) override {}
  void end() override {}
  void say(std::string_view line) override {
    const std::lock_guard lock(mutex_);
    ++lines_[std::string(line.substr(0, line.find(';')))];
  }
  std::map<std::string, int> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, int> lines_;
};

// A server and a reader of all ranges of its files: sixteen connections, eight threads.
struct Transfer {
  explicit Transfer(RangeServer::Rule rule, std::uint64_t memory = kGiB, int connections = 16)
      : server(files(), std::move(rule)), context{.progress = said, .stop = &stop, .threads = 16} {
    std::vector<RemoteSource> sources;
    for (std::size_t i = 0; i < kFiles; ++i)
      sources.push_back({.url = Url::parse(server.url(std::to_string(i))),
                         .name = "file" + std::to_string(i),
                         .size = kFile});
    reader.emplace(std::move(sources), ranges, Token(),
                   RangeOptions{.connections = connections, .memory = memory}, context);
  }

  bool is_right(std::size_t r) {
    const ConstBytes bytes = reader->wait({.range = r, .size = ranges[r].size});
    const bool right = std::ranges::equal(bytes, content_of(ranges[r]));
    reader->release(r);
    return right;
  }
  bool all_right_in_order() {
    for (std::size_t r = 0; r < ranges.size(); ++r)
      if (!is_right(r)) return false;
    return true;
  }

  RangeServer server;
  Said said;
  Stop stop;
  const std::vector<RemoteRange> ranges = all_ranges();
  const Context context;
  std::optional<RangeReader> reader;
};

Reply right(const Request&) {
  return {};
}

}  // namespace

TEST_CASE("ranges arrive over several threads, by one or several that wait") {
  for (const int connections : {1, 2, 3, 8, 40}) {
    CAPTURE(connections);
    Transfer transfer(right, kGiB, connections);
    CHECK(transfer.all_right_in_order());
    CHECK(transfer.server.requests().size() == transfer.ranges.size());
  }
  Transfer transfer(right);
  std::vector<char> good(transfer.ranges.size());
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t r = t; r < transfer.ranges.size(); r += 4) good[r] = transfer.is_right(r) ? 1 : 0;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(std::ranges::count(good, 1) == static_cast<std::ptrdiff_t>(good.size()));
}

TEST_CASE("wait_any() tells the front that is here") {
  Transfer transfer([](const Request& request) -> Reply {
    return {.most = request.begin == 0 ? 100u : UINT64_MAX, .stalls = request.begin == 0};
  });
  const std::vector<RangeFront> fronts{{.range = 0, .size = 101}, {.range = 1, .size = kRange}};
  CHECK(transfer.reader->wait_any(fronts) == 1);
  CHECK(std::ranges::equal(transfer.reader->wait({.range = 0, .size = 100}),
                           content_of(transfer.ranges[0]).first(100)));
}

TEST_CASE("memory for a single range is enough, and all of it is asked for in order then") {
  for (const int status : {206, 200}) {
    CAPTURE(status);
    Transfer transfer([&](const Request&) -> Reply { return {.status = status}; }, 1);
    CHECK(transfer.all_right_in_order());
    const auto requests = transfer.server.requests();
    if (status == 200) continue;
    for (std::size_t r = 0; r < requests.size(); ++r) CHECK(requests[r].begin == transfer.ranges[r].offset);
  }
}

TEST_CASE("a server that ignores ranges is read by one connection a file") {
  for (const std::uint64_t memory : {std::uint64_t{1}, 6 * kRange, kGiB}) {
    CAPTURE(memory);
    Transfer transfer([](const Request&) -> Reply { return {.status = 200}; }, memory);
    CHECK(transfer.all_right_in_order());
    CHECK(transfer.said.lines().size() == kFiles);
    CHECK(transfer.server.requests().size() <= 16 * kFiles);  // before it was found out
  }
  SUBCASE("of one file") {
    Transfer transfer(
        [](const Request& request) -> Reply { return {.status = request.path == "1" ? 200 : 206}; });
    CHECK(transfer.all_right_in_order());
  }
  SUBCASE("now and then, and breaks off") {
    Transfer transfer([](const Request& request) -> Reply {
      return {.status = request.number % 5 == 4 ? 200 : 206,
              .most = request.number % 7 == 6 ? 150 * kKiB : UINT64_MAX};
    });
    CHECK(transfer.all_right_in_order());
  }
  SUBCASE("and a range of it is fetched again, while the rest has no memory") {
    Transfer transfer([](const Request&) -> Reply { return {.status = 200}; }, 1);
    for (std::size_t r = 0; r < transfer.ranges.size(); ++r) {
      transfer.reader->wait({.range = r, .size = 1});
      if (r % 7 == 0)
        CHECK(std::ranges::equal(transfer.reader->again(transfer.ranges[r]), content_of(transfer.ranges[r])));
      CHECK(transfer.is_right(r));
    }
  }
}

TEST_CASE("broken connections go on where they broke") {
  Transfer transfer([](const Request& request) -> Reply {
    return {.most = request.number % 32 == 3 ? 9000u : UINT64_MAX};
  });
  CHECK(transfer.all_right_in_order());
  const auto requests = transfer.server.requests();
  CHECK(std::ranges::any_of(requests, [](const Request& each) { return each.begin % kRange == 9000; }));
}

TEST_CASE("a rate limit holds all connections, and is said once") {
  std::atomic<int> refused = 0;
  Transfer transfer([&](const Request& request) -> Reply {
    if (request.number < 4) return {};
    if (refused.fetch_add(1) < 6) return {.status = 429, .header = "Retry-After: 1\r\n"};
    return {};
  });
  CHECK(transfer.all_right_in_order());
  int said = 0;
  for (const auto& [line, times] : transfer.said.lines())
    if (line.find("the rate limit is reached") != line.npos) said += times;
  CHECK(said >= 1);
  CHECK(said <= 2);
}

TEST_CASE("what fails for good ends all connections and all who wait") {
  const auto fails = [](RangeServer::Rule rule, ErrorCode code) {
    Transfer transfer(std::move(rule));
    std::atomic<int> failed = 0;
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t)
      threads.emplace_back([&, t] {
        try {
          for (std::size_t r = t; r < transfer.ranges.size(); r += 4) transfer.is_right(r);
        } catch (const Error& error) {
          if (error.code() == code) ++failed;
        }
      });
    for (std::thread& thread : threads) thread.join();
    CHECK(failed == 4);
    CHECK_THROWS_AS(transfer.reader->again(transfer.ranges[0]), Error);
  };
  const auto last = [](const Request& request) { return request.path == "3" && request.begin >= kFile / 2; };
  SUBCASE("a file that is gone midway") {
    fails([&](const Request& request) -> Reply { return {.status = last(request) ? 404 : 206}; },
          ErrorCode::failed);
  }
  SUBCASE("a server that will not go on") {
    fails(
        [&](const Request& request) -> Reply {
          return {.status = 206,
                  .header = last(request) ? "Content-Range: bytes 0-1/7\r\n" : "",
                  .most = UINT64_MAX};
        },
        ErrorCode::difference);
  }
}

TEST_CASE("a stop ends those who wait for a server that sends nothing any more") {
  Transfer transfer([](const Request& request) -> Reply {
    return {.most = request.number < 3 ? UINT64_MAX : 1000u, .stalls = request.number >= 3};
  });
  transfer.reader->wait({.range = 0, .size = 1000});
  std::thread stopping([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    transfer.stop.request(SIGINT);
  });
  CHECK_THROWS_AS(transfer.all_right_in_order(), Error);
  stopping.join();
}

TEST_CASE("a reader that is not waited for any more leaves at once") {
  Transfer transfer([](const Request&) -> Reply { return {.most = 1000, .stalls = true}; });
  transfer.reader->wait({.range = 0, .size = 1000});
}
