// Finds the certificates that servers are verified with.
#pragma once

#include <string>

namespace planesmith::hub {

struct Certificates {
  std::string file;       // a bundle of PEM certificates; or empty
  std::string directory;  // a directory of PEM certificates, named by hash; or empty
  bool none() const { return file.empty() && directory.empty(); }
};

// The first bundle and the first hashed directory among the usual paths of distributions, each below `root`.
Certificates usual_certificates(const std::string& root = "");

// $SSL_CERT_FILE and $SSL_CERT_DIR if set, as with OpenSSL;
// else the usual ones. Error, with advice: none found.
Certificates find_certificates();

}  // namespace planesmith::hub
