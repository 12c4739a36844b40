// Spreads work over several threads. Other threads: stream_ahead() has one (base/stream.h), a download a few
// that drive libcurl (hub/transfer_loop.h), StartingBackend one that starts GPUs (quant/starting_backend.h).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace planesmith {

// Runs work(index, worker) for index = 0..count-1 on up to `threads` threads, the calling one among them,
// handing out indices in ascending order; `worker` is in 0..threads-1 and identifies the thread (for
// buffers). If the system refuses to start a thread, fewer are used. After the first exception no new index
// is started; that exception is rethrown when all threads have ended.
void parallel_for(std::size_t count, int threads,
                  const std::function<void(std::size_t index, int worker)>& work);

// Runs work in lanes, tasks[lane] tasks in each. The tasks of one lane write into the same
// files, and threads that write into one file wait for each other (the kernel locks it). So a
// thread begins a new lane while one is left and fewer than `most_open` lanes (at least 1)
// are open; otherwise it helps in the open lane with the most tasks left per thread. Lanes
// begin in ascending order, and so do the tasks of a lane. A lane is open from its first task
// until all threads that took tasks of it are done with them. Exceptions as parallel_for().
void parallel_lanes(const std::vector<std::size_t>& tasks, int threads, std::size_t most_open,
                    const std::function<void(std::size_t lane, std::size_t task, int worker)>& work);

}  // namespace planesmith
