#!/usr/bin/env bash
# usage: portable-deps.sh DIR [CMAKE-OPTION...]
#
# Builds in DIR the static libraries for the portable build that Debian does not ship, or not in the needed form, from
# Debian's source packages (the portable preset looks in build/portable/deps):
#   curl        with HTTP and TLS and nothing else (Debian ships a shared library only)
#   libarchive  without other libraries (Debian's needs libxml2, and that ICU)
#   fmt         (Debian ships a shared library only)
#   xxHash      for x86-64, choosing its instruction set at run time (only in Debian's shared library)
# apt checks the signature of a package; its upstream archive is compared with the digest below as well. Needs no root.
# CC: the C compiler.
set -euo pipefail
[ $# -ge 1 ] && [ "${1#-}" = "$1" ] || { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0" >&2; exit 2; }
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
# source_of PACKAGE DIGEST: unpacks it in PACKAGE; the digest is of the upstream archive.
source_of() {
  "${apt[@]}" source "$1" >log 2>&1 || { tail -n 5 log >&2; exit 1; }
  echo "$2  $(echo "$1"_*.orig.tar.*z)" | sha256sum -c --quiet >&2
  mv "$1"-*/ "$1"
  cp "$1/debian/copyright" "$prefix/licences/$1"
  sed -n "1s/^\([^ ]*\) (\(.*\)).*/\1 \2/p" "$1/debian/changelog" >>"$prefix/licences/libraries"
}
# quietly COMMAND...: shows its output only if it fails.
quietly() { "$@" >log 2>&1 || { tail -n 20 log >&2; exit 1; }; }
mkdir "$prefix/licences"
flags=-ffile-prefix-map=$work=.
common=(-G Ninja -DCMAKE_BUILD_TYPE=Release "-DCMAKE_C_FLAGS=$flags" -DBUILD_SHARED_LIBS=OFF "-DCMAKE_INSTALL_PREFIX=$prefix"
        -DCMAKE_INSTALL_LIBDIR=lib "$@")

source_of curl cdb38b72e36bc5d33d5b8810f8018ece1baa29a8f215b4495e495ded82bbf3c7
quietly cmake -S curl -B curl/build "${common[@]}" -DBUILD_CURL_EXE=OFF -DBUILD_TESTING=OFF -DHTTP_ONLY=ON -DCURL_USE_OPENSSL=ON \
  -DOPENSSL_USE_STATIC_LIBS=ON -DCURL_DISABLE_OPENSSL_AUTO_LOAD_CONFIG=ON -DCURL_USE_LIBSSH2=OFF -DCURL_USE_LIBPSL=OFF \
  -DUSE_LIBIDN2=OFF -DUSE_NGHTTP2=OFF -DCURL_ZLIB=OFF -DCURL_BROTLI=OFF -DCURL_ZSTD=OFF -DENABLE_UNIX_SOCKETS=OFF \
  -DCURL_CA_BUNDLE=none -DCURL_CA_PATH=none
quietly cmake --build curl/build --target install

source_of libarchive 9e2c1b80d5fbe59b61308fdfab6c79b5021d7ff4ff2489fb12daf0a96a83551d
without=()
for what in OPENSSL MBEDTLS NETTLE LIBB2 LZ4 LZO LZMA ZSTD ZLIB BZip2 LIBXML2 EXPAT PCREPOSIX LIBGCC ACL XATTR TAR CPIO CAT TEST; do
  without+=("-DENABLE_$what=OFF")
done
# Names in our archives are UTF-8, but a static C library may find only the C locale on a machine.
sed -i 's/return nl_langinfo(CODESET)/return "UTF-8"/' libarchive/libarchive/archive_string.c
grep -q 'return "UTF-8"' libarchive/libarchive/archive_string.c
quietly cmake -S libarchive -B libarchive/build "${common[@]}" "${without[@]}"
quietly cmake --build libarchive/build --target archive_static
cp libarchive/build/libarchive/libarchive.a "$prefix/lib/"
cp libarchive/libarchive/archive.h libarchive/libarchive/archive_entry.h "$prefix/include/"

source_of fmtlib 84ce1c2d0be3a9863935137969dcec6970125caac032f82474640bfc81463583
quietly cmake -S fmtlib -B fmtlib/build "${common[@]}" -DFMT_DOC=OFF -DFMT_TEST=OFF
quietly cmake --build fmtlib/build --target install

case $("${CC:-cc}" -dumpmachine) in x86_64-*)
  source_of xxhash 3bb6b7d6f30c591dd65aaaff1c8b7a5b94d81687998ca9400082c739a690436c
  cd xxhash
  quietly "${CC:-cc}" "$flags" -O2 -c xxhash.c xxh_x86dispatch.c
  quietly ar rcsD "$prefix/lib/libxxhash.a" xxhash.o xxh_x86dispatch.o
  quietly make libxxhash.pc "PREFIX=$prefix"
  cp libxxhash.pc "$prefix/lib/pkgconfig/"
  cp xxhash.h xxh3.h xxh_x86dispatch.h "$prefix/include/"
  ;;
esac

cd "$prefix" && rm -rf work
: >complete
