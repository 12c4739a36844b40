// Static programs and what the C library and OpenSSL would load while they run.
#pragma once

namespace planesmith {

// In the portable build: names of hosts and users come from the C library's own code (files and DNS), and
// OpenSSL reads no configuration. NSS modules and OpenSSL's providers are made for the machine's C library,
// not for the one in the program; loading them could end it. Called once, before any thread starts. Does
// nothing in the ordinary build.
void load_no_plugins();

}  // namespace planesmith
