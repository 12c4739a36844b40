#!/usr/bin/env bash
# The portable programs: release.sh makes them; they are static, start and work in bare roots (empty, busybox, Debian 11 and
# 13), fetch over TLS there with the certificates in each distribution's place, and come as a wheel and as a container's
# files.
. "$(dirname "$0")/../cli/common.sh"
. "$SOURCE/tests/tools/hub.sh"
. "$SOURCE/tests/tools/own_ca.sh"
export SOURCE
build=$SOURCE/build/portable
skipped() { echo "    not tried: $*"; }

# --- made ---
cd "$SOURCE" || exit 1
(. /etc/os-release && [ "$ID$VERSION_ID" = debian12 ]) || skip "releases are made on Debian 12"
expect 0 ./scripts/release.sh --wheel || { sed 's/^/    /' "$WORK/err" | tail -n 20; finish; }
tarball=$(sed -n 's/^[0-9a-f]*  \(.*\.tar\.xz\)$/\1/p' "$WORK/out") wheel=$(sed -n 's/^[0-9a-f]*  \(.*\.whl\)$/\1/p' "$WORK/out")
tarball=$SOURCE/$tarball wheel=$SOURCE/$wheel
expect 0 cmake --build "$build" --target unit-golden unit-kernels_golden make-checkpoint

# --- what is in it ---
name=$(basename "$tarball" .tar.xz)
tar -xf "$tarball" -C "$WORK" || fail "the tarball cannot be unpacked"
tree=$WORK/$name
programs=$(cd "$SOURCE/apps" && echo *.cc | sed 's/\.cc//g')
for program in $programs; do
  file=$tree/bin/$program
  ldd "$file" 2>&1 | grep -q 'not a dynamic executable' || fail "$program: ldd says $(ldd "$file" 2>&1 | head -n 1)"
  ! readelf -lW "$file" | grep -q INTERP || fail "$program wants a loader"
  ! grep -qF "$SOURCE" "$file" || fail "$program names the directory that it was built in"
  for each in man/man1/$program.1 bash-completion/completions/$program zsh/site-functions/_$program; do
    [ -s "$tree/share/$each" ] || fail "the tarball has no $each"
  done
done
for library in curl glibc gcc-12 openssl libarchive libzstd xxhash re2 yaml-cpp fmtlib nlohmann-json3 cli11 node-chart.js; do
  [ -s "$tree/share/doc/planesmith/licences/$library" ] || fail "the tarball lacks the licence of $library; it has $(ls "$tree/share/doc/planesmith/licences" | tr '\n' ' ')"
done
[ -s "$tree/share/planesmith/profiles/DeepSeek-V4-Flash.json" ] || fail "the tarball has no profiles"
[ -x "$tree/share/planesmith/scripts/regenerate.sh" ] || fail "the tarball has no scripts"
expect 1 "$tree/bin/build-planescache" "$GOLDEN/ds4-mini/checkpoint" --out "$WORK/gpu" --backend cuda
says 'portable programs are built without it; it comes with the ordinary build'

# --- the bytes ---
for test in golden kernels_golden; do
  expect 0 env -C "$SOURCE" "$build/tests/bin/unit-$test"
done
for test in build check repack pack_chunks unpack_chunks from_planescache fetch_chunks certificates; do
  env BIN="$build/bin" bash "$SOURCE/tests/cli/$test.sh" >"$WORK/out" 2>&1; status=$?
  case $status in 0) ;; 77) skipped "cli/$test.sh: $(sed -n 's/^SKIPPED: //p' "$WORK/out")" ;; *) fail "cli/$test.sh"; tail -n 5 "$WORK/out" ;; esac
done

# --- the wheel ---
if python3 -m venv "$WORK/venv" >/dev/null 2>&1; then
  expect 0 "$WORK/venv/bin/pip" install -q --no-index --disable-pip-version-check "$wheel"
  expect 0 "$WORK/venv/bin/verify-ckpt-id" list --help
  expect 0 "$WORK/venv/bin/pip" install -q --no-index --disable-pip-version-check --target "$WORK/target" "$wheel"
  expect 2 env -u PLANESMITH_PROFILES "$WORK/venv/bin/verify-ckpt-id" audit "$GOLDEN/ds4-mini/checkpoint" --profile unknown
  says 'DeepSeek-V4-Flash'  # found beside the program
  expect 0 "$WORK/target/bin/build-planescache" "$GOLDEN/ds4-mini/checkpoint" --out "$WORK/by-wheel" --ckpt-id demo
  if "$WORK/venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 20 uv >/dev/null 2>&1; then
    expect 0 env UV_CACHE_DIR="$WORK/uv" "$WORK/venv/bin/uvx" --offline --from "$wheel" build-planescache --version
    prints '^build-planescache \(planesmith '
  else
    skipped "uvx: uv cannot be installed from PyPI here"
  fi
else
  skipped "the wheel: python3 -m venv does not work here"
fi

# --- bare roots ---
[ "$(id -u)" = 0 ] || { skipped "bare roots: chroot needs root"; finish; exit 0; }
cd "$WORK/here" || exit 1
"$BIN/make-checkpoint" -o "$WORK/demo" --family mxfp4 --layers 2 --experts 8 --hidden 1024 --intermediate 512 --shards 2 -q >/dev/null
"$BIN/build-planescache" "$WORK/demo" --out "$WORK/wanted" --ckpt-id demo -q >/dev/null || fail "the ordinary build"
"$BIN/pack-chunks" pack "$WORK/wanted" --name set --out "$repo" -q >/dev/null || fail "pack"
export HUB_CERTIFICATE=$WORK/server.pem
start_hub
# Names that only /etc/hosts of a root knows.
hub=https://planesmith.test:${HF_ENDPOINT##*:}

# inside ROOT PROGRAM...: with nothing of this machine's environment.
inside() { local root=$1; shift; env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HF_ENDPOINT="$hub" "${set[@]}" chroot "${as[@]}" "$root" "$@"; }
set=() as=()
# put_tree ROOT PREFIX
put_tree() { mkdir -p "$1$2" "$1/work" "$1/etc" && cp -r "$tree/." "$1$2/" && cp -r "$WORK/demo" "$1/work/" && printf '127.0.0.1 planesmith.test\n' >"$1/etc/hosts"; }
# try ROOT PREFIX WHAT: conversion, packing, unpacking and fetching in there, with certificates in $place.
try() {
  local root=$1 bin=$2/bin before=$failures
  expect 0 inside "$root" "$bin/build-planescache" /work/demo --out /work/cache --ckpt-id demo
  diff -r "$WORK/wanted" "$root/work/cache" >/dev/null || fail "$3: other bytes than the ordinary build's"
  expect 0 inside "$root" "$bin/verify-ckpt-id" check --planescache /work/cache --checkpoint /work/demo --ckpt-id demo --sample 4
  expect 0 inside "$root" "$bin/pack-chunks" pack /work/cache --name set --out /work/parts -q
  expect 0 inside "$root" "$bin/pack-chunks" unpack /work/parts --out /work/unpacked
  diff -r "$WORK/wanted" "$root/work/unpacked/cache" >/dev/null || fail "$3: unpacked are other bytes"
  expect 0 inside "$root" "$bin/pack-chunks" fetch hf:me/cache set --out /work/fetched
  diff -r "$WORK/wanted" "$root/work/fetched/wanted" >/dev/null || fail "$3: fetched are other bytes"
  rm -rf "$root/work"
  [ "$failures" = "$before" ] && echo "    $3: converted, checked, packed, unpacked, fetched"
}

# An empty root: no certificates first, then in each place; host names from /etc/hosts, then from a name server.
empty=$WORK/empty
put_tree "$empty" /
expect 1 inside "$empty" /bin/pack-chunks fetch hf:me/cache set --out /work/none
says 'no certificates to verify servers with: none of /etc/ssl/certs/ca-certificates\.crt'
for place in etc/ssl/certs/ca-certificates.crt etc/pki/tls/certs/ca-bundle.crt etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem \
  etc/ssl/ca-bundle.pem var/lib/ca-certificates/ca-bundle.pem etc/ssl/cert.pem "etc/ssl/certs/$(ls "$WORK/hashed")" \
  "etc/pki/tls/certs/$(ls "$WORK/hashed")"; do
  mkdir -p "$empty/$(dirname "$place")" && cp "$WORK/ca.pem" "$empty/$place"
  expect 0 inside "$empty" /bin/pack-chunks fetch hf:me/cache set --out "/work/by/${place//\//_}" || echo "    with certificates in /$place"
  rm "$empty/$place"
done
mkdir "$empty/own" && cp "$WORK/ca.pem" "$empty/own/"
set=(SSL_CERT_FILE=/own/ca.pem)
# Modules of a machine's nsswitch.conf are not loaded, nor is OpenSSL's configuration.
printf 'hosts: mymachines resolve files mdns4 dns\npasswd: sss systemd files\n' >"$empty/etc/nsswitch.conf"
if command -v strace >/dev/null; then
  expect 0 inside "$empty" /bin/build-planescache --version
  expect 0 env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HF_ENDPOINT="$hub" "${set[@]}" strace -f -e trace=open,openat -o "$WORK/opened" \
    chroot "$empty" /bin/pack-chunks fetch hf:me/cache set --out /work/traced
  ! grep -E 'libnss|openssl\.cnf|ossl-modules|gconv/.*\.so' "$WORK/opened" || fail "modules are looked for"
  for program in $programs; do
    strace -f -o "$WORK/calls" chroot "$empty" "/bin/$program" --version >/dev/null
    calls=$(sed "1,/execve(\"\/bin\/$program\"/d" "$WORK/calls" | wc -l)
    [ "$calls" -lt 300 ] || fail "$program: $calls system calls to start"
  done
else
  skipped "what is opened: strace is not installed"
fi
python3 "$SOURCE/tests/tools/name_server.py" 127.53.53.53 "$WORK/ready" 2>/dev/null &
names=$!
for _ in $(seq 50); do [ -e "$WORK/ready" ] && break; sleep 0.1; done
if [ -e "$WORK/ready" ]; then
  mv "$empty/etc/hosts" "$WORK/hosts" && echo 'nameserver 127.53.53.53' >"$empty/etc/resolv.conf"
  expect 0 inside "$empty" /bin/pack-chunks fetch hf:me/cache set --out /work/by-dns
  kill $names
  mv "$WORK/hosts" "$empty/etc/hosts" && rm "$empty/etc/resolv.conf"
else
  skipped "a name server: port 53 of 127.53.53.53 is not to be had"
fi
for program in $programs; do
  begin=$(date +%s%N)
  for _ in 1 2 3 4 5 6 7 8 9 10; do chroot "$empty" "/bin/$program" --version >/dev/null || fail "$program does not start in an empty root"; done
  echo "    $program starts in an empty root in $((($(date +%s%N) - begin) / 10000)) us, chroot included"
done
try "$empty" '' "an empty root"

# The container's files, as its user.
container=$WORK/container
mkdir -p "$container" && (cd "$SOURCE" && cp -r $(sed -n 's/^COPY \([^ ]*\) .*/\1/p' scripts/Dockerfile). "$container/usr") || fail "COPY of the Dockerfile"
mkdir -p "$container/work" "$container/etc" && cp -r "$WORK/demo" "$container/work/" && cp "$empty/etc/hosts" "$container/etc/" &&
  cp -r "$empty/own" "$container/" && chmod -R a+rX "$container/work" && chmod 0777 "$container/work"
chmod 0755 "$WORK"
as=(--userspec="$(sed -n 's/^USER //p' "$SOURCE/scripts/Dockerfile")")
try "$container" /usr "the container's files, as user $(sed -n 's/^USER //p' "$SOURCE/scripts/Dockerfile")"
as=()

if command -v busybox >/dev/null && ldd "$(command -v busybox)" 2>&1 | grep -q 'not a dynamic'; then
  box=$WORK/box
  mkdir -p "$box/bin" "$box/own" && cp "$(command -v busybox)" "$box/bin/" && cp "$WORK/ca.pem" "$box/own/"
  chroot "$box" /bin/busybox --install -s /bin
  cp "$tarball" "$box/" && cp -r "$WORK/demo" "$box/"
  expect 0 inside "$box" /bin/sh -c "tar -xJf /$name.tar.xz && mv /$name /planesmith"
  put_tree "$box" /planesmith
  try "$box" /planesmith "busybox alone"
else
  skipped "busybox alone: busybox-static is not installed"
fi

mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*main.*/\2/p; s/^URIs: *\([^ ]*\).*/\1/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
for release in bullseye trixie; do
  command -v debootstrap >/dev/null || { skipped "Debian: debootstrap is not installed"; break; }
  debian=$WORK/$release
  debootstrap --variant=minbase "$release" "$debian" ${mirror:+"$mirror"} >"$WORK/debootstrap" 2>&1 ||
    { skipped "$release: debootstrap does not get it from here: $(tail -n 1 "$WORK/debootstrap")"; continue; }
  put_tree "$debian" /opt/planesmith
  mkdir -p "$debian/own" && cp "$WORK/ca.pem" "$debian/own/"
  try "$debian" /opt/planesmith "$(. "$debian/etc/os-release" && echo "$PRETTY_NAME")"
done
finish
