// Addresses, pages and retries of a hub, without a network.
#include <doctest/doctest.h>
#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/temporary_file.h"
#include "hub/certificates.h"
#include "hub/range_reader.h"
#include "hub/retry.h"
#include "hub/source.h"
#include "hub/token.h"
#include "hub/url.h"
#include "scratch.h"

using namespace planesmith;
using namespace planesmith::hub;

namespace {

// An environment variable for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* const old = getenv(name)) old_ = old;
    setenv(name, value, 1);
  }
  ~Variable() { old_ ? setenv(name_, old_->c_str(), 1) : unsetenv(name_); }

 private:
  const char* name_;
  std::optional<std::string> old_;
};

std::string page(const std::string& entry) {
  return "[" + entry + "]";
}

}  // namespace

TEST_CASE("what is fetched into a file is in TMPDIR; in memory where no directory is at hand") {
  class NoTmp final : public Os {
    int access(const char*, int) override {
      errno = ENOENT;
      return -1;
    }
  } os;
  const Scratch scratch;
  const auto keeps = [](File file) {
    file.write(bytes_of("contents"), 5);
    file.truncate(0);
    file.write(bytes_of("contents"), 0);
    std::string read(file.size(), '\0');
    file.read({reinterpret_cast<std::uint8_t*>(read.data()), read.size()}, 0);
    return read == "contents";
  };
  {
    const Variable chosen("TMPDIR", scratch.path().c_str());
    const File file = temporary_file(os);
    CHECK(file.path().starts_with(scratch.path()));
    CHECK(keeps(temporary_file(os)));
  }
  {
    const Variable missing("TMPDIR", (scratch / "missing").c_str());
    CHECK_THROWS_AS(temporary_file(os), Error);
  }
  const Variable unset("TMPDIR", "");
  CHECK(temporary_file(os).path() == "a file in memory");
  CHECK(keeps(temporary_file(os)));
}

TEST_CASE("URLs are http or https, without a password, and know their origin") {
  const Url url = Url::parse("https://Example.org/a/b?x=1#y");
  CHECK(url.origin() == "https://example.org:443");
  CHECK(url.path() == "/a/b?x=1");
  CHECK(url.shown().find('?') == std::string::npos);
  CHECK(url.same_origin(Url::parse("https://example.org:443/")));
  CHECK_FALSE(url.same_origin(Url::parse("http://example.org/")));
  CHECK_FALSE(url.same_origin(Url::parse("https://example.org:444/")));
  CHECK(url.resolve("/c").text() == "https://Example.org/c");
  CHECK(url.resolve("c d").path() == "/a/c%20d");
  CHECK(url.resolve("http://other/[1-300]").path() == "/[1-300]");
  for (const char* const bad : {"gopher://x/", "file:///etc/passwd", "-Kfile", "ftp://x/", "https://u:p@x/",
                                "https://x/\n", "", "x", "https://"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(Url::parse(bad), Error);
  }
  CHECK_THROWS_AS(url.resolve("file:///etc/passwd"), Error);
  CHECK_THROWS_AS(url.resolve("gopher://x/"), Error);
}

TEST_CASE("names and revisions are encoded") {
  CHECK(encode("refs/pr/1") == "refs%2Fpr%2F1");
  CHECK(encode_path("a b/c#d%e?f") == "a%20b/c%23d%25e%3Ff");
  const Variable endpoint("HF_ENDPOINT", "http://127.0.0.1:1/mirror");
  CHECK(Source::parse("hf:o/r@refs/pr/1", posix()).file("a b/c").text() ==
        "http://127.0.0.1:1/mirror/o/r/resolve/refs%2Fpr%2F1/a%20b/c");
  CHECK(Source::parse("hf:datasets/o/r", posix()).file("c").text() ==
        "http://127.0.0.1:1/mirror/datasets/o/r/resolve/main/c");
  CHECK(Source::parse("https://x/dir", posix()).file("c#").text() == "https://x/dir/c%23");
  for (const char* const bad : {"hf:o", "hf:o/r/s", "hf:o/..", "hf:spaces/o/r", "hf:o/r@", "o/r", "ftp://x/y",
                                "hf:o/r?x", "https://x/?y"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(Source::parse(bad, posix()), Error);
  }
}

TEST_CASE("the token is sent to its origin only, and cannot smuggle in another header") {
  const Url endpoint = Url::parse("https://hub/");
  const Variable token("HF_TOKEN", " secret\n");
  const Token found = Token::find(posix(), endpoint);
  CHECK(found.is_for(endpoint));
  CHECK(found.header() == "Authorization: Bearer secret");
  CHECK_FALSE(found.is_for(Url::parse("http://hub/")));
  CHECK_FALSE(found.is_for(Url::parse("https://hub:8443/")));
  CHECK_FALSE(found.is_for(Url::parse("https://cdn.hub/")));
  const Variable other("HF_TOKEN", "a\r\nX: y");
  CHECK_THROWS_AS(Token::find(posix(), endpoint), Error);
}

TEST_CASE("certificates are found in the usual places of distributions") {
  const Scratch root;
  CHECK(usual_certificates(root.path()).none());
  const auto put = [&](const std::string& path) {
    std::filesystem::create_directories(std::filesystem::path(root / path).parent_path());
    put_file(root / path, "PEM");
  };
  // A directory without hashed names does not count, nor does an empty bundle.
  put("etc/ssl/certs/README");
  put("etc/ssl/certs/java/1a2b3c4d.0");
  put_file(root / "etc/ssl/cert.pem", "");
  CHECK(usual_certificates(root.path()).none());
  put("etc/ssl/cert.pem");
  CHECK(usual_certificates(root.path()).file == root / "etc/ssl/cert.pem");
  for (const char* const bundle : {"var/lib/ca-certificates/ca-bundle.pem", "etc/ssl/ca-bundle.pem",
                                   "etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
                                   "etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/certs/ca-certificates.crt"}) {
    put(bundle);  // goes before those that are there already
    CHECK(usual_certificates(root.path()).file == root / bundle);
  }
  CHECK(usual_certificates(root.path()).directory.empty());
  put("etc/pki/tls/certs/1a2b3c4d.0");
  CHECK(usual_certificates(root.path()).directory == root / "etc/pki/tls/certs");
  put("etc/ssl/certs/00c0ffee.1");
  CHECK(usual_certificates(root.path()).directory == root / "etc/ssl/certs");
}

TEST_CASE("SSL_CERT_FILE and SSL_CERT_DIR override the usual places") {
  const Variable file("SSL_CERT_FILE", "/a/bundle.pem"), directory("SSL_CERT_DIR", "/a/hashed");
  CHECK(find_certificates().file == "/a/bundle.pem");
  CHECK(find_certificates().directory == "/a/hashed");
  const Variable unset("SSL_CERT_DIR", "");
  CHECK(find_certificates().file == "/a/bundle.pem");
  CHECK(find_certificates().directory == usual_certificates().directory);
}

TEST_CASE("pages stay on the endpoint") {
  const Url endpoint = Url::parse("https://mirror/hf/");
  CHECK_FALSE(next_page("", endpoint));
  CHECK_FALSE(next_page("<https://mirror/x>; rel=\"prev\"", endpoint));
  CHECK(next_page("<https://mirror/hf/api?c=1>; rel=\"next\"", endpoint)->text() ==
        "https://mirror/hf/api?c=1");
  CHECK(
      next_page("<https://a/x>; rel=\"prev\", <https://elsewhere/api?c=1>; rel=\"next\"", endpoint)->text() ==
      "https://mirror/hf/api?c=1");
  CHECK_THROWS_AS(next_page("<file:///etc/passwd>; rel=\"next\"", endpoint), Error);
  CHECK_FALSE(next_page("rel=\"next\"; <https://a/>", endpoint));
}

TEST_CASE("a page's entries are taken with care") {
  const auto files = parse_page(
      R"([{"type":"directory","path":"d","oid":"x"},
          {"type":"file","path":"d/a b","size":134,"oid":"x",
           "lfs":{"oid":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":7}},
          {"type":"file","path":"e","size":3,"oid":"e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"}])",
      "hub");
  REQUIRE(files.size() == 2);
  CHECK(files[0].path == "d/a b");
  CHECK(files[0].size == 7);
  CHECK(files[0].sha256.starts_with("e3b0"));
  CHECK(files[1].git_sha1.starts_with("e69d"));
  for (const char* const bad :
       {R"({"type":"file","path":"../a","size":1})", R"({"type":"file","path":"/a","size":1})",
        R"({"type":"file","path":"a","size":-1})", R"({"type":"file","path":"a","size":1e300})",
        R"({"type":"file","path":"a","size":18446744073709551615})", R"({"type":"file","path":"a"})",
        R"({"type":"file","size":1})", R"(7)",
        R"({"type":"file","path":"a","size":1,"lfs":{"oid":"\u001b[2J","size":1}})"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse_page(page(bad), "hub"), Error);
  }
  CHECK_THROWS_AS(parse_page("{}", "hub"), Error);
  CHECK_THROWS_AS(parse_page("", "hub"), Error);
}

TEST_CASE("permanent errors are not retried; others are, a few times") {
  using std::chrono::milliseconds;
  using std::chrono::seconds;
  std::string said;
  for (const int status : {400, 401, 403, 404, 410, 416}) {
    CAPTURE(status);
    CHECK_THROWS_AS(Retries("f", 5).next({.status = status}, said), Error);
  }
  CHECK_THROWS_AS(Retries("f", 5).next({.status = 404}, said), NotFound);
  Retries retries("f", 4);
  CHECK(retries.next({.status = 503}, said) == seconds{1});
  CHECK(said.find("503") != said.npos);
  CHECK(retries.next({.curl = 56, .detail = "reset"}, said) == seconds{2});
  CHECK(retries.next({.status = 503, .wait = seconds{7}}, said) == seconds{7});
  CHECK_THROWS_AS(retries.next({.status = 500}, said), Error);
  CHECK(retries.next({.curl = 18, .progress = true}, said) == seconds{1});

  Retries limited("f", 2);  // the rate limit does not use up the tries
  for (int i = 0; i < 4; ++i) CHECK(limited.next({.status = 429, .wait = seconds{60}}, said) == seconds{60});
  CHECK(limited.next({.status = 429}, said) >= seconds{5});
  CHECK(limited.next({.status = 429, .wait = seconds{0}}, said) == seconds{1});
  CHECK_THROWS_AS(limited.next({.status = 429, .wait = seconds{86400}}, said), Error);
}

TEST_CASE("ranges cover a file of any size") {
  std::vector<RemoteRange> ranges;
  append_ranges(ranges, 3, 10, 10, 4);
  CHECK(ranges.empty());
  append_ranges(ranges, 3, 10, 21, 4);
  REQUIRE(ranges.size() == 3);
  CHECK(ranges[0].offset == 10);
  CHECK(ranges[2].offset == 18);
  CHECK(ranges[2].size == 3);
  for (const std::uint64_t memory : {std::uint64_t{0}, kMiB, kGiB})
    for (const std::uint64_t total : {std::uint64_t{0}, kMiB, 100 * kGiB}) {
      const std::uint64_t size = range_size(total, {.connections = 16, .memory = memory});
      CHECK(size > 0);
      CHECK(size <= std::max(64 * kKiB, memory / 32));
    }
}
