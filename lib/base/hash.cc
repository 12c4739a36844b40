#include "base/hash.h"

#include <fmt/format.h>
#include <openssl/evp.h>
// Debian's libxxhash carries the variants for each vector unit and chooses one at run time.
#include <xxh_x86dispatch.h>

#include "base/error.h"

namespace planesmith {

Xxh3 Xxh3::of(ConstBytes data) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits(data.data(), data.size()));
  Xxh3 out;
  std::copy(std::begin(canonical.digest), std::end(canonical.digest), out.bytes.begin());
  return out;
}

std::string Xxh3::hex() const { return planesmith::hex(bytes); }

bool Xxh3::parse(std::string_view text, Xxh3& out) {
  if (text.size() != 2 * out.bytes.size()) return false;
  const auto digit = [](char c) { return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1; };
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

struct Sha256::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (!state_->context || EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr) != 1)
    throw Error("libcrypto cannot compute SHA-256");
}
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256::~Sha256() = default;

void Sha256::update(ConstBytes data) {
  if (EVP_DigestUpdate(state_->context.get(), data.data(), data.size()) != 1)
    throw Error("libcrypto failed to compute SHA-256");
}

Sha256Digest Sha256::finish() {
  Sha256Digest out;
  if (EVP_DigestFinal_ex(state_->context.get(), out.data(), nullptr) != 1)
    throw Error("libcrypto failed to compute SHA-256");
  return out;
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
