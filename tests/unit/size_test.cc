#include "base/size.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "base/error.h"

using namespace planesmith;

TEST_CASE("sizes as people write them") {
  CHECK(parse_size("0", "--memory") == 0);
  CHECK(parse_size("4096", "--memory") == 4096);
  CHECK(parse_size("4096B", "--memory") == 4096);
  CHECK(parse_size("16GB", "--memory") == 16'000'000'000);
  CHECK(parse_size("16GiB", "--memory") == 16 * kGiB);
  CHECK(parse_size("16G", "--memory") == 16 * kGiB);
  CHECK(parse_size("16g", "--memory") == 16 * kGiB);
  CHECK(parse_size("3kib", "--memory") == 3 * kKiB);
  CHECK(parse_size("3KB", "--memory") == 3000);
  CHECK(parse_size("3m", "--memory") == 3 * kMiB);
  CHECK(parse_size("2TB", "--memory") == 2'000'000'000'000);
  CHECK(parse_size("2T", "--memory") == 2048 * kGiB);
}

TEST_CASE("text that is not a size is refused as wrong use, and the flag is named") {
  for (const char* text : {"", "GiB", "-1", "+1", "1.5G", "1 G", " 1G", "1G ", "1Gi", "1P", "0x10", "1e9",
                           "1,000", "99999999999999999999", "8388608T", "9223372036854775808"}) {
    CAPTURE(text);
    try {
      parse_size(text, "--memory");
      FAIL("accepted");
    } catch (const Error& error) {
      CHECK(error.code() == ErrorCode::usage);
      CHECK(std::string(error.what()).find("--memory") != std::string::npos);
    }
  }
}

TEST_CASE("the largest size is the largest offset of a file") {
  CHECK(parse_size("9223372036854775807", "--memory") == std::numeric_limits<std::int64_t>::max());
  CHECK(parse_size("8388607T", "--memory") == 8388607 * (1024 * kGiB));
}

TEST_CASE("sizes as they are printed") {
  CHECK(exact_size(0) == "0 bytes");
  CHECK(exact_size(1023) == "1023 bytes");
  CHECK(exact_size(1024) == "1.00 KiB (1024 bytes)");
  CHECK(exact_size(7077888) == "6.75 MiB (7077888 bytes)");
  CHECK(short_size(7077888) == "6.75 MiB");
  CHECK(short_size(10 * kMiB) == "10.0 MiB");
  CHECK(short_size(100 * kGiB) == "100 GiB");
  CHECK(short_size(5000 * 1024 * kGiB) == "5000 TiB");  // no unit above
}

TEST_CASE("rounding up") {
  CHECK(round_up(0, 4096) == 0);
  CHECK(round_up(1, 4096) == 4096);
  CHECK(round_up(4096, 4096) == 4096);
  CHECK(round_up(4097, 4096) == 8192);
}
