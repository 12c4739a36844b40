#!/usr/bin/env bash
# run.sh SECONDS [TARGET...]: builds the fuzz targets (preset fuzz, clang) and runs each, or those named, for so long,
# as many at once as there are processors. Seeds are made from tests/golden; what a run finds worth keeping stays in
# build/fuzz/corpus/TARGET, an input that fails in build/fuzz/failed/TARGET-*. A target is a file tests/fuzz/X_fuzz.cc;
# its seeds come from the function seeds_X below, if there is one.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:?usage: run.sh SECONDS [TARGET...]}; shift
command -v clang++ >/dev/null || { echo "SKIPPED: clang++ is not installed"; exit 77; }
build=$PWD/build/fuzz golden=$PWD/tests/golden
[ $# -gt 0 ] || set -- $(cd tests/fuzz && ls -- *_fuzz.cc | sed 's/_fuzz\.cc$//')

# The front of each shard: length and header, no data.
seeds_safetensors() {
  local shard n
  for shard in "$golden"/*/checkpoint/*.safetensors; do
    n=$(od -An -tu8 -N8 "$shard")
    head -c $((8 + n)) "$shard" >"$1/$(echo "$shard" | tr / _)"
  done
}
# The number of the golden, config.json, a NUL, the index.
seeds_checkpoint() {
  local directory number=0
  for directory in "$golden"/*/checkpoint; do
    { printf %d $number; cat "$directory/config.json"; printf '\0'; cat "$directory/model.safetensors.index.json"; } >"$1/$number"
    number=$((number + 1))
  done
}
seeds_sidecar() {
  find "$golden" \( -name meta.json -o -path '*/store/*.json' \) -printf '%p\n' |
    while read -r file; do cp "$file" "$1/$(echo "$file" | tr / _)"; done
}
# What is drawn (the first byte), then real weights of each family.
seeds_kernels() {
  local model what
  for model in "$golden"/*/; do
    for what in 0 1 2 3 4; do
      { printf "\\x0$what"; cat "$model"checkpoint/*.safetensors | tail -c 2000; } >"$1/$(basename "$model")-$what"
    done
  done
}
# Of every kind; chunks manifests have a target of their own.
seeds_manifest() {
  printf '%s  a/b\n' "$(printf x | sha256sum | cut -c1-64)" >"$1/sums"
  printf '[{"type": "file", "path": "a", "size": 1, "oid": "%s"}, {"type": "file", "path": "b", "size": 1, "oid": "", "lfs": {"oid": "%s"}}]' \
    "$(printf x | sha1sum | cut -c1-40)" "$(printf x | sha256sum | cut -c1-64)" >"$1/listing"
  cp tests/fuzz/seeds/manifest/* "$1"
}

seeds_hub() {
  printf '[{"type": "file", "path": "a", "size": 1, "oid": "%s"}, {"type": "directory", "path": "b"}, {"type": "file", "path": "b/c", "size": 9, "oid": "x", "lfs": {"oid": "%s", "size": 9}}]' \
    "$(printf x | sha1sum | cut -c1-40)" "$(printf x | sha256sum | cut -c1-64)" >"$1/page"
  printf 'l<https://hub.example:8443/api/models/a/b/tree/main?cursor=x>; rel="next"' >"$1/link"
  printf 'l<https://elsewhere/api?a=b>; rel="prev", <//other/path>; rel="next"' >"$1/elsewhere"
}
# Three rows of (tick, layer, expert), and a dump.
seeds_tiers() {
  { printf '\223NUMPY\001\000\166\000'; printf '%-117s\n' "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 3), }"
    printf '\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\2\0\0\0\1\0\0\0\0\0\0\0\3\0\0\0'; } >"$1/trace"
  printf '{"tick": 3, "n_slots": 4, "cached": 2, "promoted_total": 2, "evicted_total": 1, "fp4_by_layer": {"0": [1], "1": [2]}}' >"$1/dump"
}
seeds_recipe() {
  printf 'requires: {gpus: 2, vram_gb: 96}\nenv:\n  A: "{planes_cache}"\nserve_args:\n  - --tensor-parallel-size 2\n' >"$1/recipe.yaml"
  for model in "$golden"/*/checkpoint; do
    python3 -c 'import json, sys; c = json.load(open(sys.argv[1])); json.dump(c.get("quantization_config"), sys.stdout)' "$model/config.json" >"$1/$(basename "$(dirname "$model")")"
  done
  cp manifests/profiles/*.json "$1"
}

# Each kind of input, the sound one; damage is the fuzzer's part.
seeds_chunks() {
  local set=tests/fuzz/seeds/chunks/set work
  work=$(mktemp -d)
  mkdir -p "$work/t/sub" && seq 300 >"$work/t/a" && printf x >"$work/t/sub/b" && truncate -s 300000 "$work/t/hole" && printf end >>"$work/t/hole"
  ln -s ../a "$work/t/sub/link" && ln "$work/t/a" "$work/t/same"
  for format in gnu pax ustar v7; do
    tar -C "$work" --sparse --format=$format -cf "$work/$format" t 2>/dev/null || tar -C "$work" --format=$format -cf "$work/$format" t
    { printf t; cat "$work/$format"; } >"$1/tar-$format"
    { printf z; zstd -qc "$work/$format"; } >"$1/zstd-$format"
  done
  { printf z; zstd -qc --no-check </dev/null; zstd -qc <"$work/pax"; } >"$1/zstd-frames"
  { printf m; cat $set.manifest.json; printf '\0'; cat $set.tar.zst.part.*; } >"$1/set"
  { printf c; cat $set.manifest.json; printf '\0'; cat $set.tar.zst.part.* | zstd -dq; } >"$1/content"
  rm -rf "$work"
}

cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target $(printf '%s-fuzz ' "$@")
mkdir -p "$build/failed"
for target; do
  mkdir -p "$build/seeds/$target" "$build/corpus/$target"
  if declare -F "seeds_$target" >/dev/null; then "seeds_$target" "$build/seeds/$target"; fi
done

one() {
  local log="$3/$1-fuzz.log" status=0
  "$3/bin/$1-fuzz" -max_total_time="$2" -max_len=65536 -timeout=25 -rss_limit_mb=1024 -print_final_stats=1 \
    -artifact_prefix="$3/failed/$1-" "$3/corpus/$1" "$3/seeds/$1" >"$log" 2>&1 || status=$?
  if [ $status = 0 ]; then
    echo "$1: $(sed -n 's/^stat::number_of_executed_units: *//p' "$log") runs, nothing found"
  else
    tail -n 40 "$log"; echo "$1: FAILED (exit $status), see $log"
  fi
  return $status
}
export -f one
export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c 'one {} '"$seconds '$build'"
