#include "quant/starting_backend.h"

#include <chrono>
#include <utility>

namespace planesmith {

// The call holds a pointer only: if the system refuses a thread, libstdc++ defers the call, with a function
// that it has moved from already.
StartingBackend::StartingBackend(std::function<std::unique_ptr<Backend>()> start, Pieces pieces,
                                 std::unique_ptr<Backend> stand_in)
    : start_(std::move(start)),
      pieces_(pieces),
      stand_in_(std::move(stand_in)),
      started_(std::async(std::launch::async | std::launch::deferred, [this] { return start_(); })) {}

Backend& StartingBackend::current() {
  const bool starting = started_.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
  return starting ? *stand_in_ : ready();
}

Backend& StartingBackend::ready() const {
  const std::unique_ptr<Backend>& backend = started_.get();
  return backend ? *backend : *stand_in_;
}

}  // namespace planesmith
