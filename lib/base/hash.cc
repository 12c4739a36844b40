#include "base/hash.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#if defined(__x86_64__)
// Debian's libxxhash carries the variants for each vector unit and chooses one at run time.
#include <xxh_x86dispatch.h>
#else
#include <xxhash.h>  // built for NEON on 64-bit Arm, all of which have it
#endif

#include <algorithm>
#include <new>

#include "base/error.h"

namespace planesmith {

namespace {

Xxh3 canonical(XXH128_hash_t hash) {
  XXH128_canonical_t bytes;
  XXH128_canonicalFromHash(&bytes, hash);
  Xxh3 out;
  std::copy(std::begin(bytes.digest), std::end(bytes.digest), out.bytes.begin());
  return out;
}

}  // namespace

Xxh3 Xxh3::of(ConstBytes data) {
  return canonical(XXH3_128bits(data.data(), data.size()));
}

std::string Xxh3::hex() const {
  return planesmith::hex(bytes);
}

bool Xxh3::parse(std::string_view text, Xxh3& out) {
  if (text.size() != 2 * out.bytes.size()) return false;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
  };
  for (std::size_t i = 0; i < out.bytes.size(); ++i) {
    const int high = digit(text[2 * i]), low = digit(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    out.bytes[i] = static_cast<std::uint8_t>(high << 4 | low);
  }
  return true;
}

Xxh3 combine(std::span<const Xxh3> blocks) {
  static_assert(sizeof(Xxh3) == 16, "digests lie side by side without padding");
  return Xxh3::of({reinterpret_cast<const std::uint8_t*>(blocks.data()), blocks.size_bytes()});
}

struct Xxh3Stream::State {
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> xxh{XXH3_createState(), &XXH3_freeState};
};

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) {
  if (!state_->xxh) throw std::bad_alloc();
  XXH3_128bits_reset(state_->xxh.get());
}
Xxh3Stream::Xxh3Stream(Xxh3Stream&&) noexcept = default;
Xxh3Stream& Xxh3Stream::operator=(Xxh3Stream&&) noexcept = default;
Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::update(ConstBytes data) {
  XXH3_128bits_update(state_->xxh.get(), data.data(), data.size());
}

Xxh3 Xxh3Stream::finish() {
  const Xxh3 out = canonical(XXH3_128bits_digest(state_->xxh.get()));
  XXH3_128bits_reset(state_->xxh.get());
  return out;
}

namespace {

struct Evp {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};

  explicit Evp(const EVP_MD* algorithm) {
    check(algorithm != nullptr);
    check(context != nullptr && EVP_DigestInit_ex(context.get(), algorithm, nullptr) == 1);
  }
  void update(const void* data, std::size_t n) { check(EVP_DigestUpdate(context.get(), data, n) == 1); }
  template <std::size_t N>
  std::array<std::uint8_t, N> finish() {
    std::array<std::uint8_t, N> out;
    check(EVP_DigestFinal_ex(context.get(), out.data(), nullptr) == 1);
    return out;
  }
  static void check(bool good) {
    if (!good) throw Error("libcrypto failed to compute a digest");
  }
};

}  // namespace

// The algorithms are looked up once: EVP_sha256() has each new digest look its provider up under locks, where
// many threads that begin at once wait for each other.
struct Sha256::State : Evp {
  using Evp::Evp;
};
Sha256::Sha256() {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  state_ = std::make_unique<State>(algorithm);
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;
void Sha256::update(ConstBytes data) {
  state_->update(data.data(), data.size());
}
Sha256Digest Sha256::finish() {
  return state_->finish<32>();
}

struct GitBlobSha1::State : Evp {
  using Evp::Evp;
};
GitBlobSha1::GitBlobSha1(std::uint64_t size) {
  static const EVP_MD* const algorithm = EVP_MD_fetch(nullptr, "SHA1", nullptr);
  state_ = std::make_unique<State>(algorithm);
  const std::string head = fmt::format("blob {}", size);
  state_->update(head.c_str(), head.size() + 1);
}
GitBlobSha1::~GitBlobSha1() = default;
void GitBlobSha1::update(ConstBytes data) {
  state_->update(data.data(), data.size());
}
Sha1Digest GitBlobSha1::finish() {
  return state_->finish<20>();
}

std::string hex(ConstBytes data) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  out.reserve(2 * data.size());
  for (const std::uint8_t byte : data) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out;
}

std::string sha256_hex(std::string_view text) {
  Sha256 sha;
  sha.update(text);
  return hex(sha.finish());
}

}  // namespace planesmith
