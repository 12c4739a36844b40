#include "hub/range_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/size.h"
#include "hub/range_table.h"
#include "hub/transfer_loop.h"

namespace planesmith::hub {
namespace {

// Threads that transfer. One receives 1.4 GB/s at most; of sixteen threads, eight move most
// (docs/PERFORMANCE.md).
int loops_for(const RangeOptions& options, const Context& context) {
  constexpr int kMost = 8, kConnectionsEach = 2, kThreadsEach = 2;
  return std::clamp(std::min(options.connections / kConnectionsEach, context.threads / kThreadsEach), 1,
                    kMost);
}

}  // namespace

class RangeReader::Inside {
 public:
  Inside(std::vector<RemoteSource> files, const std::vector<RemoteRange>& ranges, const Token& token,
         const RangeOptions& options, const Context& context)
      : token_(token), context_(context), table_(std::move(files), ranges, options, context.progress, [this] {
          for (const auto& loop : loops_) loop->wake();
        }) {
    const auto count = static_cast<std::size_t>(loops_for(options, context));
    const auto connections = static_cast<std::size_t>(options.connections);
    const auto share = [&](std::size_t i) { return connections / count + (i < connections % count ? 1 : 0); };
    for (std::size_t i = 0; i < count; ++i)
      loops_.push_back(std::make_unique<TransferLoop>(table_, share(i), token_, context_));
    for (std::size_t i = 0; i < count; ++i)
      if (!start(*loops_[i])) table_.lose_connections(share(i));
  }

  ~Inside() {
    table_.end();
    for (std::thread& thread : threads_) thread.join();
  }

  RangeTable& table() { return table_; }

 private:
  // False: the system refuses to start a thread, which is an error only if it is the first.
  bool start(TransferLoop& loop) {
    std::string why;
    try {
      threads_.emplace_back([&loop] { loop.run(); });
      return true;
    } catch (const std::system_error& error) {
      why = error.code().message();
    } catch (const std::bad_alloc&) {  // the threads that run must be joined
      why = "no memory is left";
    }
    if (threads_.empty())
      throw Error(
          fmt::format("no thread can be started to transfer: {}; raise the limit of processes or of memory "
                      "(ulimit -u, ulimit -v)",
                      why));
    return false;
  }

  const Token token_;
  const Context& context_;
  RangeTable table_;
  std::vector<std::unique_ptr<TransferLoop>> loops_;
  std::vector<std::thread> threads_;
};

RangeReader::RangeReader(std::vector<RemoteSource> files, const std::vector<RemoteRange>& ranges,
                         const Token& token, const RangeOptions& options, const Context& context)
    : inside_(std::make_unique<Inside>(std::move(files), ranges, token, options, context)) {}
RangeReader::~RangeReader() = default;

ConstBytes RangeReader::wait(const RangeFront& front) {
  wait_any({&front, 1});
  return inside_->table().front(front);
}

std::size_t RangeReader::wait_any(std::span<const RangeFront> fronts) {
  return inside_->table().wait_any(fronts);
}

void RangeReader::release(std::size_t range) {
  inside_->table().release(range);
}

std::vector<std::uint8_t> RangeReader::again(const RemoteRange& want) {
  const std::size_t range = inside_->table().add_again(want);
  const ConstBytes bytes = wait({.range = range, .size = want.size});
  std::vector<std::uint8_t> copy(bytes.begin(), bytes.end());
  release(range);
  return copy;
}

void append_ranges(std::vector<RemoteRange>& ranges, std::size_t file, std::uint64_t begin, std::uint64_t end,
                   std::uint64_t size) {
  for (std::uint64_t at = begin; at < end; at += size)
    ranges.push_back({.file = file, .offset = at, .size = std::min(size, end - at)});
}

std::uint64_t range_size(std::uint64_t total, const RangeOptions& options) {
  const auto connections = static_cast<std::uint64_t>(std::max(options.connections, 1));
  const std::uint64_t most = std::clamp(options.memory / (2 * connections), 64 * kKiB, 64 * kMiB);
  return std::clamp(total / (4 * connections), std::min(kMiB, most), most);
}

}  // namespace planesmith::hub
