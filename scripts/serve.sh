#!/usr/bin/env bash
# usage: serve.sh PROFILE --checkpoint DIR --planescache ROOT [options] [-- ENGINE ARGUMENTS]
#        serve.sh --list
#
# Prints the container command that serves a checkpoint from its cache and packs, one shell-quoted line, or runs it. First
# the files are checked as the engine would look for them; nothing is printed where that fails. The identity is the cache's.
# PROFILE is one of those that --list shows (manifests/serve), or a file of that form. Needs python3.
#
#   --store DIR          directory of the packs; --store 0=DIR,1=DIR where each rank's packs have their own
#   --ckpt-id ID         which identity, where the cache holds several
#   --set NAME=VALUE     another variable of the engine, or another value of one
#   --image NAME         container image of the engine (default: $PLANESMITH_IMAGE, else vllm-moet)
#   --run RUNTIME        run the command with docker or podman instead of printing it
#   --compose[=FILE]     a compose file instead
#   --env-file[=FILE]    the container's environment as an env file instead
#   --list               the profiles with their figures; with --planescache or --store those that these files serve
set -euo pipefail
. "$(dirname "$0")/common.sh"
for argument in "$@"; do
  case $argument in
    --) break ;;
    -h | --help) usage; exit ;;
  esac
done
need python3 verify-ckpt-id
status=0
# shellcheck disable=SC2154  # common.sh sets it
python3 "$here/serve.py" "$@" || status=$?
[ $status != 2 ] || usage >&2
exit $status
