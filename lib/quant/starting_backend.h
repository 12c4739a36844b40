// A backend whose devices start on a thread of their own: a driver takes a quarter of a second, each GPU a
// tenth.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>

#include "quant/backend.h"

namespace planesmith {

// Until the devices have started, current() is the stand-in; everything else waits for them.
class StartingBackend : public Backend {
 public:
  // start: called once. Null: there are no devices, the stand-in stays. Errors of it are those of current(),
  // wait() and all that waits. pieces: of the backend that it makes; they need no less memory than those of
  // the stand-in.
  StartingBackend(std::function<std::unique_ptr<Backend>()> start, Pieces pieces,
                  std::unique_ptr<Backend> stand_in);

  std::string describe() const override { return ready().describe(); }
  std::unique_ptr<Converter> make_converter(int worker) override { return ready().make_converter(worker); }
  std::unique_ptr<Quantizer> make_quantizer(int worker) override { return ready().make_quantizer(worker); }
  std::unique_ptr<Buffer> allocate(std::size_t bytes) override { return ready().allocate(bytes); }
  Pieces pieces() const override { return pieces_; }
  Backend& current() override;
  void wait() override { ready(); }

 private:
  Backend& ready() const;

  const std::function<std::unique_ptr<Backend>()> start_;
  const Pieces pieces_;
  const std::unique_ptr<Backend> stand_in_;
  std::shared_future<std::unique_ptr<Backend>> started_;  // destroyed first: it waits for start_
};

}  // namespace planesmith
