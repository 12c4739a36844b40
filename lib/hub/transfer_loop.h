// Some of the connections of a RangeReader, on one thread: libcurl's handles stay on the thread that uses
// them. The others have loops of their own.
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
  // connections: at once. All that is given outlives this.
  TransferLoop(RangeTable& table, std::size_t connections, const Token& token, const Context& context);

  void run();   // transfers, until the table has ended; what fails ends it
  void wake();  // to look at the table again; from any thread

 private:
  struct Transfer {
    RangeInFlight* range;  // that the next bytes belong to
    bool from_direct;      // began where an earlier redirect led
    Exchange exchange{};
    std::uint64_t position = 0;  // in the file, of the next byte
    int hops = 0;
    bool begun = false;   // the head of the response was looked at
    bool serial = false;  // the whole file comes, from its first byte
    bool alone = false;   // and the other transfers of the file have ended
    bool paused = false;
    bool progress = false;
    bool finished = false;  // has what it was for; what follows is not wanted
    std::exception_ptr failure{};
  };

  void end_superseded();
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
