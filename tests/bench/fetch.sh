#!/usr/bin/env bash
# Benchmark of pack-chunks fetch against a hub on loopback: one connection and sixteen where each gets 100 MB/s, sixteen
# without a limit, and unpacking the same set from local parts. Prints a line each; never part of ctest.
#   BIN=build/release/bin bash tests/bench/fetch.sh [MEGABYTES]
set -euo pipefail
BIN=$(realpath "${BIN:?directory of the built programs}") SOURCE=${SOURCE:-$(cd "$(dirname "$0")/../.." && pwd)} size=${1:-1000}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/planesmith-bench.XXXXXX")
server=''
trap '[ -z "$server" ] || kill "$server"; rm -rf "$WORK"' EXIT
cd "$WORK"
PATH=$BIN:$PATH
repo=hub/models/me/cache/main
mkdir -p "$repo" src/tree
# Sixteen files: like the parts of a planes cache, they are many.
for i in $(seq 16); do head -c $((size * 62500)) /dev/urandom >src/tree/noise$i; done
pack-chunks pack src/tree --name set --part-size "$((size / 16 + 1))MB" --out "$repo" -q >/dev/null
HUB_PROCESSES=8 python3 "$SOURCE/tests/tools/hub_server.py" hub port &
server=$!
until [ -e port ]; do sleep 0.1; done
export HF_ENDPOINT=http://127.0.0.1:$(cat port) no_proxy=127.0.0.1,localhost HUB_PAGE=100
row() {  # NAME COMMAND...
  local name=$1 begin end; shift
  rm -rf out; sync
  begin=$(date +%s%N); "$@" -q >/dev/null; end=$(date +%s%N)
  rate=$(awk -v mb="$size" -v ns=$((end - begin)) 'BEGIN { printf "%.0f", mb / (ns / 1e9) }')
  printf '%-34s %6s MB/s\n' "$name" "$rate"
}
echo 'rate 100000000' >hub/.trouble
row 'fetch -j 1, 100 MB/s a connection' pack-chunks fetch hf:me/cache set --out out -j 1; one=$rate
row 'fetch -j 16, 100 MB/s a connection' pack-chunks fetch hf:me/cache set --out out -j 16; many=$rate
rm hub/.trouble
row 'fetch -j 16, no limit' pack-chunks fetch hf:me/cache set --out out -j 16; free=$rate
all_parts() { find "$repo" -name '*.part.*' -printf '%f\n' | xargs -P16 -I{} env -u LD_LIBRARY_PATH curl -sS -o /dev/null "${HF_ENDPOINT/127.0.0.1/localhost}/files/${repo#hub/}/{}"; }
row 'what the server gives 16 x curl' all_parts
row 'unpack of local parts' pack-chunks unpack "$repo" --name set --out out; local=$rate
awk -v a="$many" -v b="$one" -v c="$free" -v d="$local" 'BEGIN { printf "-j 16 / -j 1: %.1f (12 wanted); no limit / unpack: %.2f (0.7 wanted)\n", a / b, c / d }'
