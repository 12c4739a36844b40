#include "base/version.h"

#include <archive.h>
#include <fmt/format.h>
#include <openssl/crypto.h>
#include <xxhash.h>
#include <zstd.h>

#include <nlohmann/json.hpp>

namespace planesmith {

std::string version() {
  return "planesmith " PLANESMITH_VERSION;
}

std::string libraries() {
  const unsigned xxh = XXH_versionNumber();
  return fmt::format("zstd {}, {}, xxHash {}.{}.{}, {}, fmt {}.{}.{}, nlohmann-json {}.{}.{}",
                     ZSTD_versionString(), archive_version_string(), xxh / 10000, xxh / 100 % 100, xxh % 100,
                     OpenSSL_version(OPENSSL_VERSION), FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
                     FMT_VERSION % 100, NLOHMANN_JSON_VERSION_MAJOR, NLOHMANN_JSON_VERSION_MINOR,
                     NLOHMANN_JSON_VERSION_PATCH);
}

}  // namespace planesmith
