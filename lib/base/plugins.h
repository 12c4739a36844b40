// Keeps the C library and OpenSSL from loading modules into a static program.
#pragma once

namespace planesmith {

// In the portable build: the C library's own code resolves host and user names (files
// and DNS), and OpenSSL reads no configuration. NSS modules and OpenSSL's providers are
// built for the machine's C library, not for the one in the program, and could crash
// it. To be called once, before any thread starts. Does nothing in the ordinary build.
void load_no_plugins();

}  // namespace planesmith
