// Where the certificates are that servers are checked by.
#pragma once

#include <string>

namespace planesmith::hub {

struct Certificates {
  std::string file,
      directory;  // a bundle of PEM certificates; a directory of them, named by hash. Empty: none
  bool none() const { return file.empty() && directory.empty(); }
};

// The first bundle and the first hashed directory of the usual places of distributions; `root` stands in
// front of each.
Certificates usual_certificates(const std::string& root = "");

// $SSL_CERT_FILE and $SSL_CERT_DIR where they are set, as with OpenSSL; else the usual ones. Errors: there
// are none, with advice.
Certificates find_certificates();

}  // namespace planesmith::hub
