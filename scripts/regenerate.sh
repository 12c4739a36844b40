#!/usr/bin/env bash
# usage: regenerate.sh CHECKPOINT OUT [options]
#
# Everything between a checkpoint and an engine that boots from it: plan and space check, planes cache and packs in one
# pass over the checkpoint, a check as the engine would make it and of 64 experts made again from the checkpoint, manifests,
# and chunks to publish where asked for.
# Interrupted, it is simply started again. Standard output is the environment to serve with:
#     eval "$(regenerate.sh CHECKPOINT OUT)"
#
#   OUT/planescache   the cache           OUT/packs   the packs           OUT/chunks   what --publish makes
#
#   --world W         tensor-parallel ranks (default 1)
#   --tiers LIST      packs to build, or none (default base,delta,fp4)
#   --fp4 KIND        FP4 planes in the cache: none, nibble, quintal (default nibble)
#   --ckpt-id ID      pin this identity instead of the content id
#   --publish         pack cache and packs into OUT/chunks, as sets planescache and store, with a README.md (publish.sh)
#   --publish-model   and the checkpoint, as set model
#   -n, --dry-run     stop after plan and space check
set -euo pipefail
. "$(dirname "$0")/common.sh"

world=1 tiers=base,delta,fp4 fp4=nibble publish=false publish_model=() dry_run=false identity=() places=()
while [ $# -gt 0 ]; do
  case $1 in
    --world) world=$(value_of "$@"); shift ;;
    --tiers) tiers=$(value_of "$@"); shift ;;
    --fp4) fp4=$(value_of "$@"); shift ;;
    --ckpt-id) identity=(--ckpt-id "$(value_of "$@")"); shift ;;
    --publish) publish=true ;;
    --publish-model) publish=true publish_model=(--model) ;;
    -n | --dry-run) dry_run=true ;;
    -h | --help) usage; exit ;;
    -*) wrong "$1 is not an option" ;;
    *) places+=("$1") ;;
  esac
  shift
done
[ ${#places[@]} = 2 ] || wrong "give a checkpoint and an output directory"
checkpoint=${places[0]} out=${places[1]}
need build-planescache verify-ckpt-id
! $publish || need pack-chunks

build=(build-planescache "$checkpoint" --out "$out/planescache" --world "$world" --fp4 "$fp4" "${identity[@]}")
check=(verify-ckpt-id check --planescache "$out/planescache" --world "$world" --fp4 "$fp4")
if [ "$tiers" != none ]; then
  build+=(--store "$out/packs" --tiers "$tiers")
  check+=(--store "$out/packs" --tiers "$tiers")
fi

say "== plan and space"
"${build[@]}" --dry-run >&2
$dry_run && exit

say "== build"
"${build[@]}" >&2

say "== check"
# The build has hashed the checkpoint, and what it found is remembered. OUT may hold other identities too.
[ ${#identity[@]} != 0 ] || identity=(--ckpt-id "$(verify-ckpt-id id -q "$checkpoint")")
check+=("${identity[@]}")
"${check[@]}" --checkpoint "$checkpoint" --sample 64 >&2

say "== manifests"
for manifest in "$out"/planescache/v2/*/*/manifest.json "$out"/packs/*.manifest.json; do
  [ -e "$manifest" ] || continue
  verify-ckpt-id verify --quick "$manifest" >&2
done

if $publish; then
  say "== chunks"
  "$(dirname "$0")/publish.sh" "$out" "$out/chunks" ${publish_model[0]:+--model "$checkpoint"}
fi

say "== environment to serve with"
"${check[@]}" --print-env
