#!/usr/bin/env bash
# usage: regenerate.sh CHECKPOINT OUT [options]
#
# Does everything between a checkpoint and an engine that boots from it: plan and space check; planes cache and packs in one
# pass over the checkpoint; a check as the engine would do it, and of 64 experts converted again; manifests; on request
# chunks to publish. After an interruption run it again. Stdout is the environment to serve with, or "false":
#     environment=$(regenerate.sh CHECKPOINT OUT) && eval "$environment"
#
#   OUT/planescache   the cache           OUT/packs   the packs           OUT/chunks   what --publish makes
#
#   --for MODE        mode of the engine: resident, resident-split, resident-2bit, host, host-split or host-2bit
#                     (docs/ENGINE.md; default resident; host for FP8 checkpoints, of which the engine has no cache)
#   --world W         tensor-parallel ranks (default 1)
#   --tiers LIST      packs to build instead of the mode's, or none
#   --fp4 KIND        FP4 planes in the cache instead of the mode's: none, nibble, quintal
#                     (with --tiers or --fp4 and without --for, the mode is the one that these files serve)
#   --drafts N        DSpark blocks to take as layers (default 0)
#   --ckpt-id ID      pin this identity instead of the content id
#   --publish         pack cache and packs into OUT/chunks, as sets planescache and store, with a README.md (publish.sh)
#   --publish-model   and the checkpoint, as set model
#   -n, --dry-run     stop after plan and space check
set -euo pipefail
. "$(dirname "$0")/common.sh"
print_false_on_failure

mode='' world=1 tiers='' fp4=() drafts=() publish=false publish_model=() dry_run=false identity=() places=()
while [ $# -gt 0 ]; do
  case $1 in
    --for) mode=$(value_of "$@"); shift ;;
    --world) world=$(value_of "$@"); shift ;;
    --tiers) tiers=$(value_of "$@"); shift ;;
    --fp4) fp4=(--fp4 "$(value_of "$@")"); shift ;;
    --drafts) drafts=(--drafts "$(value_of "$@")"); shift ;;
    --ckpt-id) identity=(--ckpt-id "$(value_of "$@")"); shift ;;
    --publish) publish=true ;;
    --publish-model) publish=true publish_model=(--model) ;;
    -n | --dry-run) dry_run=true ;;
    -h | --help) usage >&2; exit ;;
    -*) wrong "$1 is not an option" ;;
    *) places+=("$1") ;;
  esac
  shift
done
[ ${#places[@]} = 2 ] || wrong "give a checkpoint and an output directory"
checkpoint=${places[0]} out=${places[1]}
need build-planescache build-fp4-packs verify-ckpt-id
! $publish || need pack-chunks

what=(--world "$world" "${fp4[@]}" "${drafts[@]}")
if [ -z "$mode$tiers${fp4[*]}" ]; then
  mode=resident
  plan=$(build-planescache "$checkpoint" --out "$out/planescache" --world "$world" --dry-run --json --ckpt-id plan -q)
  case $plan in *'"FP8 block"'*) mode=host; say "an FP8 checkpoint, for which the engine has no planes cache: using mode host" ;; esac
fi
[ -z "$mode" ] || what+=(--for "$mode")
cache=(--planescache "$out/planescache") store=()
case $tiers in
  none) ;;
  '') [ "$mode" = resident-2bit ] || store=(--store "$out/packs") ;;
  *) store=(--store "$out/packs") what+=(--tiers "$tiers") ;;
esac
build=(build-planescache "$checkpoint" --out "$out/planescache" "${what[@]}" "${store[@]}" "${identity[@]}")

say "== plan and space"
"${build[@]}" --dry-run >&2
if $dry_run; then exit; fi

say "== build"
"${build[@]}" >&2

say "== check"
# The build has hashed the checkpoint and the digests are remembered. Name the identity, since OUT may hold others.
[ ${#identity[@]} != 0 ] || identity=(--ckpt-id "$(verify-ckpt-id id -q "$checkpoint")")
[ -d "$out/planescache" ] || cache=()
check=(verify-ckpt-id check "${cache[@]}" "${store[@]}" "${what[@]}" "${identity[@]}" --checkpoint "$checkpoint")
"${check[@]}" --sample 64 >&2

say "== manifests"
for manifest in "$out"/planescache/v2/*/*/manifest.json "$out"/packs/*.manifest.json; do
  [ -e "$manifest" ] || continue
  verify-ckpt-id verify --quick "$manifest" >&2
done

if $publish; then
  say "== chunks"
  "$(dirname "$0")/publish.sh" "$out" "$out/chunks" ${publish_model[0]:+--model "$checkpoint"} >&2
fi

say "== environment to serve with"
environment=$("${check[@]}" --print-env)
printf '%s\n' "$environment"
