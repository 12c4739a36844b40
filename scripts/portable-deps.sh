#!/usr/bin/env bash
# usage: portable-deps.sh DIR [CMAKE-OPTION...]
#
# Makes the static library of the portable build that Debian ships as a shared one only, in DIR (the portable preset looks
# in build/portable/deps): libcurl with HTTP and TLS and nothing else, from Debian's own source package. apt checks the
# signature of the package; the upstream archive is compared with the digest below as well. Needs no root.
set -euo pipefail
[ $# -ge 1 ] && [ "${1#-}" = "$1" ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
curl_digest=cdb38b72e36bc5d33d5b8810f8018ece1baa29a8f215b4495e495ded82bbf3c7  # curl_7.88.1.orig.tar.gz
mkdir -p "$1"
prefix=$(cd "$1" && pwd); shift
[ ! -e "$prefix/complete" ] || exit 0

keyring=/usr/share/keyrings/debian-archive-keyring.gpg
if ! command -v apt-get >/dev/null || ! command -v dpkg-source >/dev/null || [ ! -e $keyring ]; then
  echo "portable-deps.sh: the portable build is made on Debian 12 (apt-get, dpkg-dev and debian-archive-keyring)" >&2
  exit 1
fi
mirror=http://deb.debian.org/debian
work=$prefix/work
rm -rf "${prefix:?}"/*
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
cd "$work"
printf 'deb-src [signed-by=%s] %s bookworm main\ndeb-src [signed-by=%s] %s-security bookworm-security main\n' \
  $keyring "$mirror" $keyring "$mirror" >sources.list
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=- -o "Dir::State::lists=$work/lists"
     -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=)
"${apt[@]}" update >&2
"${apt[@]}" source curl >&2
echo "$curl_digest  $(echo curl_*.orig.tar.gz)" | sha256sum -c --quiet >&2

options=(-DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DHTTP_ONLY=ON
         -DCURL_USE_OPENSSL=ON -DOPENSSL_USE_STATIC_LIBS=ON -DCURL_DISABLE_OPENSSL_AUTO_LOAD_CONFIG=ON -DCURL_USE_LIBSSH2=OFF
         -DCURL_USE_LIBPSL=OFF -DUSE_LIBIDN2=OFF -DUSE_NGHTTP2=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF -DENABLE_UNIX_SOCKETS=OFF
         -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none "-DCMAKE_C_FLAGS=-ffile-prefix-map=$work=."
         "-DCMAKE_INSTALL_PREFIX=$prefix" -DCMAKE_INSTALL_LIBDIR=lib "$@")
{ cmake -G Ninja -S curl-*/ -B build "${options[@]}" && cmake --build build --target install; } >log 2>&1 ||
  { tail -n 20 log >&2; exit 1; }
mkdir -p "$prefix/licences"
cp curl-*/debian/copyright "$prefix/licences/curl"
sed -n "1s/^curl (\(.*\)).*/\1/p" curl-*/debian/changelog >"$prefix/version"
cd "$prefix" && rm -rf work
: >complete
