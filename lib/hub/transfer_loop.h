// Some of the connections of a RangeReader, on one thread, because libcurl's handles belong to one thread.
// Each such thread has a loop.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "base/context.h"
#include "hub/exchange.h"
#include "hub/range_table.h"
#include "hub/token.h"

namespace planesmith::hub {

class TransferLoop {
 public:
  // connections: the most at once. All arguments must outlive this.
  TransferLoop(RangeTable& table, std::size_t connections, const Token& token, const Context& context);

  void run();   // runs transfers until the table has ended; a failure ends the table
  void wake();  // makes run() look at the table again; from any thread

 private:
  struct Transfer {
    RangeInFlight* range;  // the range of the next bytes
    bool from_direct;      // began at the target of an earlier redirect
    Exchange exchange{};
    std::uint64_t position = 0;  // in the file, of the next byte
    int hops = 0;
    bool begun = false;   // the header of the response was checked
    bool serial = false;  // reads the whole file from its first byte
    bool alone = false;   // serial, and the other transfers of the file have ended
    bool paused = false;
    bool progress = false;
    bool finished = false;  // has its bytes; ignores what follows
    std::exception_ptr failure{};
  };

  void make_way();
  void start_transfers();
  void resume_paused();
  bool perform();
  void ask(Transfer& transfer, const Url& url);
  std::size_t take(Transfer& transfer, ConstBytes bytes);
  static std::size_t hold(Transfer& transfer);
  void begin_body(Transfer& transfer);
  bool goes_on(Transfer& transfer, CURLcode code);
  void after_failure(const Transfer& transfer, CURLcode code);
  void remove(Transfer& transfer);

  RangeTable& table_;
  const std::size_t connections_;
  const Token& token_;
  const Context& context_;
  std::unique_ptr<CURLM, decltype(&curl_multi_cleanup)> multi_;
  std::vector<std::unique_ptr<Transfer>> transfers_;
};

}  // namespace planesmith::hub
