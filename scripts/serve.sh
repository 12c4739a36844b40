#!/usr/bin/env bash
# usage: serve.sh PROFILE --checkpoint DIR --planescache ROOT [options] [-- ENGINE ARGUMENTS]
#        serve.sh --list
#
# Prints the container command that serves a checkpoint from its cache and packs as one shell-quoted line, or runs it. First
# checks the files as the engine would look for them; prints nothing if that fails. The identity is the cache's. PROFILE is
# one of those that --list shows (manifests/serve), or a file of that form. Needs python3.
#
#   --store DIR          directory of the packs; --store 0=DIR,1=DIR where each rank's packs have their own
#   --ckpt-id ID         which identity, if the cache holds several
#   --set NAME=VALUE     set or change a variable of the engine
#   --image NAME         container image of the engine (default: $PLANESMITH_IMAGE, else vllm-moet)
#   --run RUNTIME        run the command with docker or podman instead of printing it
#   --compose[=FILE]     write a compose file instead
#   --env-file[=FILE]    write the container's environment as an env file instead
#   --list               list the profiles with their figures; with --planescache or --store only those that fit
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
