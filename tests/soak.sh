#!/usr/bin/env bash
# The soak test, by hand: a large synthetic checkpoint through the whole chain, twice, with programs killed at random
# moments and started again, and the same digests at the end. Not part of any test run.
#   tests/soak.sh DIR [SIZE [SEED]]   DIR: new or empty; SIZE of the checkpoint in GB (20)
# Environment: FP4 (nibble) of the cache and TIERS (base,delta,fp4) of the packs. At its peak it needs 9 times SIZE of disk;
# with FP4=none TIERS=base little more than twice SIZE.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
PATH=${BIN:-$root/build/release/bin}:$PATH
work=${1:?directory to work in} size=${2:-20} RANDOM=${3:-1} fp4=${FP4:-nibble} tiers=${TIERS:-base,delta,fp4}
mkdir -p "$work"; cd "$work"
[ -z "$(ls -A)" ] || { echo "$work: is not empty"; exit 1; }
export XDG_CACHE_HOME=$PWD/state
stopped=([130]=0 [137]=0 [143]=0)  # by exit status: interrupted, killed, terminated
longest=$((2 + size))  # seconds until a kill
peak=0

stamp() { printf '%s  %s\n' "$(date +%T)" "$*"; }
measure() { local used; used=$(du -sm . | cut -f1); [ "$used" -le "$peak" ] || peak=$used; }

# Runs a command to its end, but first stops and restarts it at up to three random moments.
stubbornly() {
  local kills=$((RANDOM % 4)) signal pid status
  while [ $kills -gt 0 ]; do
    kills=$((kills - 1))
    "$@" >/dev/null 2>>log & pid=$!
    sleep $((RANDOM % longest)).$((RANDOM % 10))
    case $((RANDOM % 4)) in 0) signal=TERM ;; 1) signal=INT ;; *) signal=KILL ;; esac
    kill -$signal $pid 2>/dev/null || true
    status=0; wait $pid || status=$?
    case $status in 0) ;; 130 | 137 | 143) stopped[status]=$((stopped[status] + 1)) ;; *) stamp "exit $status: $*"; tail -n 3 log; exit 1 ;; esac
    measure
  done
  "$@" >/dev/null 2>>log || { stamp "exit $?: $*"; tail -n 3 log; exit 1; }
  measure
  stamp "$1 ${2#-*}: done"
}
digest() { (cd "$1" && find . -type f ! -name '*.lock' -print0 | sort -z | xargs -0 xxhsum -q -H2) | xxhsum -q -H2 | cut -d' ' -f1; }

for round in 1 2; do
  stamp "round $round"
  # 13.4 MB an expert of 4096 x 2048.
  make-checkpoint --layers 8 --experts $((size * 1000 / 8 / 14 + 1)) --hidden 4096 --intermediate 2048 --shards 8 -o checkpoint \
    -q >/dev/null
  stamp "a checkpoint of $(du -sh checkpoint | cut -f1)"
  stubbornly build-planescache checkpoint -o out/cache --fp4 "$fp4" --store out/packs --tiers "$tiers" --ckpt-id soak -q
  stubbornly verify-ckpt-id check --planescache out/cache --store out/packs --checkpoint checkpoint --all -q
  mv checkpoint/config.json . && rm -r checkpoint
  stubbornly pack-chunks pack out --name soak --out parts --part-size 2GB -q
  stubbornly pack-chunks verify parts -q
  built=$(digest out) packed=$(digest parts)
  rm -r out
  stubbornly pack-chunks unpack parts --name soak --out again -q
  [ "$(digest again/out)" = "$built" ] || { stamp "unpacked files differ"; exit 1; }
  rm -r parts
  for manifest in again/out/cache/v2/*/*/manifest.json again/out/packs/*.manifest.json; do
    stubbornly verify-ckpt-id verify "$manifest" -q
  done
  stubbornly verify-ckpt-id rekey --from soak --to soak-2 --planescache again/out/cache --store again/out/packs -q
  stubbornly verify-ckpt-id check --planescache again/out/cache --store again/out/packs --ckpt-id soak-2 --config config.json -q
  find again -name '*.tmp' -o -name '.?*' | grep . && { stamp "strays are left"; exit 1; }
  digests[round]="$built $packed $(digest again/out)"
  rm -r again config.json
  stamp "round $round: digests ${digests[round]}"
done
[ "${digests[1]}" = "${digests[2]}" ] || { stamp "the rounds differ"; exit 1; }
stamp "the same bytes twice; ${stopped[137]} killed, ${stopped[143]} terminated, ${stopped[130]} interrupted; peak $peak MB"
