// The only way in which the library uses several threads.
#pragma once

#include <cstddef>
#include <functional>

namespace planesmith {

// Runs work(index, worker) for index = 0..count-1 on up to `threads` threads (OpenMP), handing out indices in
// ascending order; `worker` is in 0..threads-1 and tells threads apart (buffers). After the first exception
// no new index is started; that exception is rethrown when all threads have ended.
void parallel_for(std::size_t count, int threads,
                  const std::function<void(std::size_t index, int worker)>& work);

int hardware_threads();  // processors this process may run on

}  // namespace planesmith
