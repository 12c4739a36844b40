#!/usr/bin/env bash
# usage: serve.sh quality|balanced|speed --checkpoint DIR --planescache ROOT [--store DIR] [options] [-- ENGINE ARGUMENTS]
#
# Prints the container command that serves a checkpoint from its cache, or runs it. First the cache is checked as the
# engine would; nothing is printed where that fails. The identity comes from the cache itself.
#
#   quality    full 4-bit experts in host memory, the GPU caches them          (packs base, fp4)
#   balanced   2-bit planes and 4-bit digits side by side, the split mode      (packs base, fp4q; cache built with --fp4 quintal)
#   speed      2-bit planes on the GPU, 4-bit planes from the pack where worth it  (pack delta)
#
#   --world W       tensor-parallel ranks, as the cache was built (default 1)
#   --ckpt-id ID    which identity, where the cache holds several
#   --image NAME    container image of the engine (default: $PLANESMITH_IMAGE, else vllm-moet)
#   --runtime CMD   docker, podman, ... (default docker)
#   --run           run the command instead of printing it
set -euo pipefail
. "$(dirname "$0")/common.sh"

mode='' checkpoint='' cache='' store='' world=1 image=${PLANESMITH_IMAGE:-vllm-moet} runtime=docker run=false identity=()
while [ $# -gt 0 ]; do
  case $1 in
    quality | balanced | speed) mode=$1 ;;
    --checkpoint) checkpoint=$(value_of "$@"); shift ;;
    --planescache) cache=$(value_of "$@"); shift ;;
    --store) store=$(value_of "$@"); shift ;;
    --world) world=$(value_of "$@"); shift ;;
    --ckpt-id) identity=(--ckpt-id "$(value_of "$@")"); shift ;;
    --image) image=$(value_of "$@"); shift ;;
    --runtime) runtime=$(value_of "$@"); shift ;;
    --run) run=true ;;
    -h | --help) usage; exit ;;
    --) shift; break ;;
    *) wrong "'$1' is neither a mode nor an option" ;;
  esac
  shift
done
case $mode in
  quality) tiers=base,fp4 fp4=nibble ;;
  balanced) tiers=base,fp4q fp4=quintal ;;
  speed) tiers=delta fp4=nibble ;;
  *) wrong "say quality, balanced or speed" ;;
esac
[ -n "$checkpoint" ] && [ -n "$cache" ] || wrong "--checkpoint and --planescache are needed"
need verify-ckpt-id

check=(verify-ckpt-id check --planescache "$cache" --world "$world" --fp4 "$fp4" "${identity[@]}")
[ -z "$store" ] || check+=(--store "$store" --tiers "$tiers")
environment=$("${check[@]}" --print-env)

command=("$runtime" run --rm --gpus all --ipc host -p 8000:8000)
while IFS= read -r line; do
  [ -n "$line" ] || continue
  # "export NAME=value", quoted for a shell: let a shell take it apart.
  name=${line#export } name=${name%%=*}
  command+=(-e "$name=$(eval "$line"; printf %s "${!name}")")
done <<<"$environment"
command+=(-v "$(realpath "$checkpoint"):/model:ro" -v "$(realpath "$cache"):/planescache")
[ -z "$store" ] || command+=(-v "$(realpath "$store"):/packs")
command+=("$image" --model /model --tensor-parallel-size "$world" "$@")

if $run; then exec "${command[@]}"; fi
printf '%q ' "${command[@]}"
echo
