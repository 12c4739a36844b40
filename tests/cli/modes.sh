#!/usr/bin/env bash
# For each mode: what --for made is what an engine opens that is started with exactly the environment of --print-env.
. "$(dirname "$0")/common.sh"
JUDGE=$SOURCE/tests/tools/engine_opens.py
MODES="resident resident-split resident-2bit host host-split host-2bit"

# with_env COMMAND...: under the environment that $WORK/env sets, and nothing else of the engine's.
with_env() {
  (
    for name in $(compgen -e VLLM_MOE_W2); do unset "$name"; done
    eval "$(cat "$WORK/env")" && "$@"
  )
}

# serve_mode MODEL MODE WORLD [FLAGS...]: build, environment, judge, and check of what results.
serve_mode() {
  local checkpoint=$1 mode=$2 world=$3 cache=$WORK/c/planescache store=$WORK/c/packs flags identity; shift 3
  flags=("$@") identity="it's $mode, of $(basename "$(dirname "$checkpoint")")"
  rm -rf "$WORK/c"
  expect 0 build-planescache "$checkpoint" --out "$cache" --store "$store" --for "$mode" --world "$world" \
    --ckpt-id "$identity" -q "${flags[@]}" || return
  local check=(verify-ckpt-id check --store "$store" --for "$mode" --world "$world" --checkpoint "$checkpoint" "${flags[@]}")
  [ -d "$cache" ] && check+=(--planescache "$cache")
  expect 0 "${check[@]}" --print-env || return
  cp "$WORK/out" "$WORK/env"
  made=("$cache" "$store")
  [ -d "$store" ] || made=("$cache")
  [ -d "$cache" ] || made=("$store")
  expect 0 with_env "$JUDGE" --checkpoint "$checkpoint" --world "$world" --made "${made[@]}" ||
    { echo "    $mode of $checkpoint, world $world ${flags[*]}:"; sed 's/^/    /' "$WORK/env" "$WORK/out"; }
  expect 0 with_env verify-ckpt-id check --from-environment --checkpoint "$checkpoint" --world "$world" &&
    prints "^mode $mode: "
  # The same as an env file.
  expect 0 "${check[@]}" --print-env=docker
  cp "$WORK/out" "$WORK/file.env"
  expect 0 verify-ckpt-id check --env-file "$WORK/file.env" --checkpoint "$checkpoint" --world "$world" && prints "^mode $mode: "
}

for mode in $MODES; do
  serve_mode "$GOLDEN/ds4-mini/checkpoint" $mode 1
  serve_mode "$GOLDEN/glm-nvfp4-mini/checkpoint" $mode 2
  serve_mode "$GOLDEN/kimi-nvfp4-mini/checkpoint" $mode 1 --zero-mode alt
done
serve_mode "$GOLDEN/glm-nvfp4-mini/checkpoint" host-split 1 --zero-mode sign
for mode in resident resident-split host host-split host-2bit resident-2bit; do
  serve_mode "$GOLDEN/ds4-dspark-mini/checkpoint" $mode 1 --drafts 3
done
serve_mode "$GOLDEN/ds4-dspark-mini/checkpoint" host 2 --drafts 1

# FP8: host modes need the packs alone, resident modes have nothing to boot from, and a cache is for packs only.
FP8=$GOLDEN/glm-fp8-mini/checkpoint
for mode in host host-split host-2bit; do
  serve_mode "$FP8" $mode 1
  absent "$WORK/c/planescache"
  grep -q PLANES_CACHE "$WORK/env" && fail "a planes cache is named for an FP8 checkpoint"
done
expect 2 build-planescache "$FP8" --out "$WORK/none" --for host --ckpt-id x
says 'no planes cache for FP8 checkpoints.*--store'
expect 0 build-planescache "$FP8" --out "$WORK/fp8" --ckpt-id x
says 'warning: .*neither reads nor writes a planes cache of an FP8 checkpoint'
expect 3 verify-ckpt-id check --planescache "$WORK/fp8" --checkpoint "$FP8" --for resident
prints '^  MISS  the engine neither reads nor writes a planes cache of an FP8 checkpoint'
# The manifest records the family, so the checkpoint is not needed.
expect 3 verify-ckpt-id check --planescache "$WORK/fp8" --for resident
prints '^  MISS  the engine neither reads nor writes a planes cache of an FP8 checkpoint'
expect 3 verify-ckpt-id check --planescache "$WORK/fp8"
prints '^  MISS  the engine neither reads nor writes a planes cache of an FP8 checkpoint'
expect 3 verify-ckpt-id check --planescache "$WORK/fp8" --checkpoint "$FP8" --for resident --print-env
[ "$(cat "$WORK/out")" = false ] || fail "print-env of a miss printed $(cat "$WORK/out")"
expect 0 build-fp4-packs "$FP8" --out "$WORK/fp8-packs" --ckpt-id x
[ "$(cd "$WORK/fp8-packs" && ls ./*.pack | sed 's/\.v2.*//' | tr '\n' ' ')" = "./base ./fp4 " ] || fail "the default packs of FP8"
expect 0 verify-ckpt-id check --planescache "$WORK/fp8" --store "$WORK/fp8-packs" --checkpoint "$FP8"
prints '^mode host: '

# Other flags override the mode, and contradictions are reported.
DS4=$GOLDEN/ds4-mini/checkpoint
expect 0 build-planescache "$DS4" --out "$WORK/d" --store "$WORK/d-packs" --for resident --tiers base,fp4 --ckpt-id x -q
[ "$(cd "$WORK/d-packs" && ls ./*.pack | sed 's/\.v2.*//' | tr '\n' ' ')" = "./base ./fp4 " ] || fail "--tiers does not win"
expect 0 verify-ckpt-id check --planescache "$WORK/d" --store "$WORK/d-packs" --checkpoint "$DS4"
prints '^mode host: '
expect 3 verify-ckpt-id check --planescache "$WORK/d" --store "$WORK/d-packs" --checkpoint "$DS4" --for resident
prints 'delta pack'
expect 2 build-fp4-packs "$DS4" --out "$WORK/none" --for resident-2bit
says 'opens no packs'
expect 2 build-fp4-packs "$DS4" --out "$WORK/none" --for fast
says "mode 'fast' is not one of resident, resident-split"

# The dry run names the mode and what the engine will do with each file.
expect 0 build-planescache "$DS4" --out "$WORK/none" --store "$WORK/none-packs" --for host-split --dry-run
prints '^mode +host-split: '
prints '^written +planes cache: .*; read at start for layers that the packs do not list$'
prints '^written +fp4q pack: .*; opened at every start'
says 'warning: the engine has no kernels for K = 192 and 128'
expect 0 build-planescache "$DS4" --out "$WORK/none" --store "$WORK/none-packs" --for resident --tiers base,delta --dry-run --json
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["mode"] == "resident"
assert [w["purpose"] for w in d["written"] if w["what"] == "base pack"] == ["not opened in mode resident"], d' "$WORK/out" || fail "dry run --json"
finish
