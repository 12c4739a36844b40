#include "hub/certificates.h"

#include <dirent.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string_view>

#include "base/error.h"

namespace planesmith::hub {
namespace {

constexpr std::string_view kBundles[] = {
    "/etc/ssl/certs/ca-certificates.crt",                 // Debian, Ubuntu, Alpine, Arch, Gentoo
    "/etc/pki/tls/certs/ca-bundle.crt",                   // Red Hat, Fedora, Amazon
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",  // the same, newer releases
    "/etc/ssl/ca-bundle.pem",                             // SUSE
    "/var/lib/ca-certificates/ca-bundle.pem",             // the same, newer releases
    "/etc/ssl/cert.pem",                                  // Alpine without ca-certificates
};
constexpr std::string_view kDirectories[] = {
    "/etc/ssl/certs",                // Debian, SUSE, Alpine
    "/etc/pki/tls/certs",            // Red Hat
    "/var/lib/ca-certificates/pem",  // SUSE
};

bool is_bundle(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
         ::access(path.c_str(), R_OK) == 0;
}

// OpenSSL looks certificates up by the hash of their subject: 1a2b3c4d.0
bool is_hashed(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
  if (!directory) return false;
  while (const dirent* const entry = ::readdir(directory.get())) {
    const std::string_view name = entry->d_name;
    if (name.size() > 9 && name[8] == '.' &&
        name.substr(0, 8).find_first_not_of("0123456789abcdef") == name.npos)
      return true;
  }
  return false;
}

std::string value_of(const char* variable) {
  const char* const value = ::getenv(variable);
  return value == nullptr ? "" : value;
}

}  // namespace

Certificates usual_certificates(const std::string& root) {
  Certificates found;
  for (const std::string_view path : kBundles)
    if (found.file.empty() && is_bundle(root + std::string(path))) found.file = root + std::string(path);
  for (const std::string_view path : kDirectories)
    if (found.directory.empty() && is_hashed(root + std::string(path)))
      found.directory = root + std::string(path);
  return found;
}

Certificates find_certificates() {
  Certificates found = usual_certificates();
  if (const std::string file = value_of("SSL_CERT_FILE"); !file.empty()) found.file = file;
  if (const std::string directory = value_of("SSL_CERT_DIR"); !directory.empty()) found.directory = directory;
  if (found.none())
    throw Error(
        fmt::format("no certificates to verify servers with: none of {} is there. Install the package "
                    "ca-certificates, or set SSL_CERT_FILE to a bundle of PEM certificates",
                    fmt::join(kBundles, ", ")));
  return found;
}

}  // namespace planesmith::hub
