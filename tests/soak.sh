#!/usr/bin/env bash
# The soak test, by hand: a large synthetic checkpoint through the whole chain, twice, with kills at random moments, and the
# same digests at the end. Not part of any test run.
#   tests/soak.sh FOLDER [GB] [SEED]     FOLDER: on a file system with about 8 times GB free; GB of checkpoint (20)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
PATH=${BIN:-$root/build/release/bin}:$PATH
work=${1:?folder to work in} gb=${2:-20} RANDOM=${3:-1}
mkdir -p "$work"; cd "$work"
kills=0

# Runs a command to its end, killing and starting it again at random moments before.
stubbornly() {
  local moments=$((RANDOM % 4)) pid status
  while [ $moments -gt 0 ]; do
    moments=$((moments - 1))
    "$@" >/dev/null 2>>soak.log & pid=$!
    sleep $((RANDOM % 3)).$((RANDOM % 10))
    if kill -9 $pid 2>/dev/null; then kills=$((kills + 1)); fi
    status=0; wait $pid 2>/dev/null || status=$?
    [ $status -eq 0 ] || [ $status -eq 137 ] || { echo "exit $status: $*"; tail -3 soak.log; exit 1; }
  done
  "$@" >/dev/null 2>>soak.log || { echo "failed: $*"; tail -3 soak.log; exit 1; }
}
digests() { (cd "$1" && find . -type f ! -name '*.lock' -print0 | sort -z | xargs -0 xxhsum -H2) | xxhsum -H2 | cut -d' ' -f1; }

# 13.4 MB an expert of 4096 x 2048.
[ -d checkpoint ] || make-checkpoint --layers 8 --experts $((gb * 1000 / 8 / 13)) --hidden 4096 --intermediate 2048 --shards 8 \
  -o checkpoint -q >/dev/null
for round in 1 2; do
  rm -rf out parts again; echo "round $round: $(du -sh checkpoint | cut -f1) of checkpoint"
  stubbornly build-planescache checkpoint -o out/cache --store out/packs --ckpt-id soak -q
  stubbornly verify-ckpt-id check --planescache out/cache --store out/packs --checkpoint checkpoint --all -q
  stubbornly pack-chunks pack out --name soak --out parts --part-size 4GB -q
  stubbornly pack-chunks verify parts -q
  stubbornly pack-chunks unpack parts --out again -q
  [ "$(digests out)" = "$(digests again/out)" ] || { echo "unpacked files differ"; exit 1; }
  rm -rf out
  stubbornly verify-ckpt-id rekey --from soak --to soak-2 --planescache again/out/cache --store again/out/packs -q
  stubbornly verify-ckpt-id check --planescache again/out/cache --store again/out/packs --ckpt-id soak-2 --checkpoint checkpoint -q
  find again \( -name '*.tmp' -o -name '.*' ! -name . \) -print | grep . && { echo "strays"; exit 1; }
  eval "digest_$round=$(digests again/out)-$(digests parts)"
  echo "round $round: $kills kills so far"
done
# shellcheck disable=SC2154
[ "$digest_1" = "$digest_2" ] && echo "the same bytes twice, after $kills kills"
