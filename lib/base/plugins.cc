#include "base/plugins.h"

#ifdef PLANESMITH_PORTABLE
#include <nss.h>
#include <openssl/crypto.h>
#endif

namespace planesmith {

void load_no_plugins() {
#ifdef PLANESMITH_PORTABLE
  __nss_configure_lookup("hosts", "files dns");
  __nss_configure_lookup("passwd", "files");
  OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, nullptr);
#endif
}

}  // namespace planesmith
