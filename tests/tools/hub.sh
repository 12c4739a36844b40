# shellcheck shell=bash
# Sourced by the command-line tests that need a hub: starts hub_server.py over $WORK/here/hub, on loopback.
for tool in curl python3 zstd tar; do command -v $tool >/dev/null || skip "$tool is not installed"; done
mkdir -p "$WORK/here/hub/models/me/cache/main" && cd "$WORK/here" || exit 1
repo=hub/models/me/cache/main
start_hub() {
  rm -f port
  python3 "$SOURCE/tests/tools/hub_server.py" hub port &
  server=$!
  trap 'kill $server 2>/dev/null; rm -rf "$WORK"' EXIT
  for _ in $(seq 100); do [ -e port ] && break; sleep 0.1; done
  export HF_ENDPOINT=http://127.0.0.1:$(cat port) no_proxy=127.0.0.1,localhost HF_HOME=$WORK/hf-home
  unset HF_TOKEN HF_TOKEN_PATH http_proxy https_proxy
}
# trouble LINE...: what goes wrong from now on; none: nothing. Forgets the requests so far.
trouble() { printf '%s\n' "$@" >hub/.trouble; : >hub/.requests; }
requests() { grep -c -- "$1" hub/.requests; }
asked() { [ "$(requests "$1")" = "$2" ] || fail "$1 was asked for $(requests "$1") times instead of $2"; }
# not_shown TEXT: neither output of the last command holds it.
not_shown() { ! grep -qF -- "$1" "$WORK/out" "$WORK/err" || fail "'$1' is shown"; }
