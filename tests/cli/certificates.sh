#!/usr/bin/env bash
# pack-chunks fetch from a hub with TLS: servers are checked by the certificates that the environment names.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/tools/hub.sh"
. "$SOURCE/tests/tools/own_ca.sh"
mkdir tree && seq 1 50000 >tree/numbers
expect 0 pack-chunks pack tree --name set --part-size 300kB --frame-size 64KiB --out $repo -q
export HUB_CERTIFICATE=$WORK/server.pem
start_hub
export HF_ENDPOINT=https://${HF_ENDPOINT#http://}

refused() { expect 1 "$@" pack-chunks fetch hf:me/cache set --out out && absent out/tree; }
refused env -u SSL_CERT_FILE
says 'certificate'
refused env SSL_CERT_FILE="$WORK/missing.pem"
says 'missing\.pem'
refused env SSL_CERT_FILE="$WORK/server.key"
[ ! -e hub/.requests ] || fail "a server was asked that could not be checked"

for place in SSL_CERT_FILE="$WORK/ca.pem" SSL_CERT_DIR="$WORK/hashed"; do
  rm -rf out
  expect 0 env "$place" pack-chunks fetch hf:me/cache set --out out
  diff -r tree out/tree >/dev/null || fail "$place: not what was packed"
done
finish
