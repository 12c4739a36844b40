// How work is spread over several threads. Besides, stream_ahead() has a thread that reads (base/stream.h),
// and a download has a few that drive libcurl (hub/transfer_loop.h).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace planesmith {

// Runs work(index, worker) for index = 0..count-1 on up to `threads` threads, the calling one among them,
// handing out indices in ascending order; `worker` is in 0..threads-1 and tells threads apart (buffers). A
// thread that the system refuses to start means fewer threads, no error. After the first exception no new
// index is started; that exception is rethrown when all threads have ended.
void parallel_for(std::size_t count, int threads,
                  const std::function<void(std::size_t index, int worker)>& work);

// Work in lanes, tasks[lane] tasks in each. The tasks of one lane write into the same files, and threads that
// write into one file wait for each other (the kernel locks it). So a thread begins a lane of its own as long
// as there is one and fewer than `most_open` lanes (at least 1) are open; where not, it helps in the open
// lane that has the most tasks left for each of its threads. Lanes begin in ascending order, and so do the
// tasks of a lane. A lane is open from its first task until all threads that took tasks of it are done with
// them. Exceptions as parallel_for().
void parallel_lanes(const std::vector<std::size_t>& tasks, int threads, std::size_t most_open,
                    const std::function<void(std::size_t lane, std::size_t task, int worker)>& work);

}  // namespace planesmith
