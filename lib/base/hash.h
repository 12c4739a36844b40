// XXH3-128 (seed 0), SHA-256 and git's SHA-1 of a blob. Text forms are lowercase hex.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/file.h"

namespace planesmith {

// An XXH3-128 value in its canonical (big-endian) byte order.
struct Xxh3 {
  std::array<std::uint8_t, 16> bytes{};
  bool operator==(const Xxh3&) const = default;
  std::string hex() const;
  static Xxh3 of(ConstBytes data);
  static bool parse(std::string_view hex, Xxh3& out);  // false where it is not 32 lowercase hex digits
};

// The digest of a sequence of digests: XXH3-128 over their canonical bytes in order (CLI.md, "Manifests").
Xxh3 combine(std::span<const Xxh3> blocks);

// The same digest of data that comes in pieces.
class Xxh3Stream {
 public:
  Xxh3Stream();
  Xxh3Stream(Xxh3Stream&&) noexcept;
  Xxh3Stream& operator=(Xxh3Stream&&) noexcept;
  ~Xxh3Stream();
  void update(ConstBytes data);
  Xxh3 finish();  // the digest so far; then starts again

 private:
  struct State;
  std::unique_ptr<State> state_;
};

using Sha256Digest = std::array<std::uint8_t, 32>;

class Sha256 {
 public:
  Sha256();
  Sha256(Sha256&&) noexcept;
  ~Sha256();
  void update(ConstBytes data);
  void update(std::string_view text) { update(bytes_of(text)); }
  Sha256Digest finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

using Sha1Digest = std::array<std::uint8_t, 20>;

// SHA-1 of "blob <size>\0" and `size` bytes: how git, and so a repository listing, names a file's contents.
class GitBlobSha1 {
 public:
  explicit GitBlobSha1(std::uint64_t size);
  ~GitBlobSha1();
  void update(ConstBytes data);
  Sha1Digest finish();  // once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hex(ConstBytes data);
std::string sha256_hex(std::string_view text);

}  // namespace planesmith
