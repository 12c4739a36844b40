#!/usr/bin/env bash
# usage: publish.sh OUT CHUNKS [options]
#
# Packs what regenerate.sh has made (OUT/planescache and OUT/packs) into CHUNKS, as the sets of published caches: planescache
# (extracts to planescache/), store (to moet_store/) and, with --model, model (to the checkpoint's own name). Writes a
# README.md for the repository. Run it again after an interruption and it continues.
#
#   --model CHECKPOINT   pack the checkpoint too
#   --repo OWNER/REPO    what README.md calls the repository (default: OWNER/REPO, to be filled in)
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/common.sh"

model='' repo=OWNER/REPO places=()
while [ $# -gt 0 ]; do
  case $1 in
    --model) model=$(value_of "$@"); shift ;;
    --repo) repo=$(value_of "$@"); shift ;;
    -h | --help) usage; exit ;;
    -*) wrong "$1 is not an option" ;;
    *) places+=("$1") ;;
  esac
  shift
done
[ ${#places[@]} = 2 ] || wrong "give the directory that regenerate.sh has filled and one for the chunks"
out=${places[0]} chunks=${places[1]}
need pack-chunks verify-ckpt-id

sets=()
# publish SET DIRECTORY NAME: keeps a finished set of exactly these files; refuses a set of other files.
publish() {
  pack-chunks pack "$2" --name "$1" --as "$3" --out "$chunks" --recheck >&2
  pack-chunks verify "$chunks" --name "$1" >&2
  sets+=("$1")
}
[ ! -d "$out/planescache" ] || publish planescache "$out/planescache" planescache
[ ! -d "$out/packs" ] || publish store "$out/packs" moet_store
[ -z "$model" ] || publish model "$model" "$(basename "$(realpath -s "$model")")"
[ ${#sets[@]} != 0 ] || die "$out: holds neither planescache nor packs"

# The serving profiles that these files fit.
files=() places_there=''
for pair in --planescache=planescache:planescache --store=packs:moet_store; do
  flag=${pair%%=*} name=${pair#*=}
  [ ! -d "$out/${name%:*}" ] || { files+=("$flag" "$out/${name%:*}"); places_there+="${places_there:+ }$flag DIR/${name#*:}"; }
done
profiles=''
# shellcheck disable=SC2154  # common.sh sets $here
if command -v python3 >/dev/null && [ -e "$here/serve.sh" ]; then
  profiles=$("$here/serve.sh" --list "${files[@]}") || profiles=""  # it has said why
fi

# fact NAME: its values in the manifests of cache and packs, one per line.
fact() {
  find "$out/planescache" "$out/packs" -name '*manifest.json' -exec grep -oh "\"$1\": \(\"[^\"]*\"\|[0-9]\+\)" {} + 2>/dev/null |
    sed 's/^"[^"]*": //' | tr -d '"' | LC_ALL=C sort -u
}
line() { local values; values=$(fact "$2" | paste -sd ' '); [ -z "$values" ] || printf -- '- %s: `%s`\n' "$1" "$values"; }
{
  cat <<TEXT
# A cache for vLLM-Moet

What the serving engine (vLLM-Moet) reads instead of converting the checkpoint's experts itself. Made and verified with
Planesmith ($(pack-chunks --version | head -n 1)).

## What it is

TEXT
  line 'identity (VLLM_MOE_W2_CKPT_ID)' ckpt_id
  line 'ranks (world)' world
  line 'layers (L)' layers
  line 'experts (E)' experts
  line 'hidden size (H)' hidden
  line 'expert size (I)' intermediate
  line 'zero mode' zero_mode
  printf '\n| set | extracts to | parts | bytes |\n|---|---|---|---|\n'
  for each in "${sets[@]}"; do
    case $each in planescache) to=planescache ;; store) to=moet_store ;; *) to=$(basename "$(realpath -s "$model")") ;; esac
    printf '| %s | `%s/` | %s | %s |\n' "$each" "$to" "$(wc -l <"$chunks/SHA256SUMS.$each")" \
      "$(find "$chunks" -maxdepth 1 -name "$each.tar.zst.part.*" -printf '%s\n' | awk '{ s += $1 } END { printf "%.0f", s }')"
  done
  cat <<TEXT

SHA-256 digests of the parts are in \`SHA256SUMS.<set>\` (\`sha256sum -c SHA256SUMS.planescache\`); \`manifest.<set>.json\` tells
what is in every frame.

## Fetch

With Planesmith: many connections, every frame verified, no second copy on the disk, continued after an interruption:

$(for each in "${sets[@]}"; do printf '    pack-chunks fetch hf:%s %s --out DIR\n' "$repo" "$each"; done)

With \`scripts/fetch.sh\` where nothing of it is installed, or with stock tools:

    hf download $repo --include "planescache.tar.zst.part.*" --local-dir parts
    cat parts/planescache.tar.zst.part.* | zstd -d -T4 | tar -x --sparse -C DIR

## Serve

    verify-ckpt-id check $places_there --print-env

prints the environment, once it has found that the engine would boot from what is there. The packs must be writable by
the engine.
TEXT
  if [ -n "$profiles" ]; then
    printf '\nThese serving profiles of Planesmith fit; `serve.sh` checks the files and prints the container command:\n\n'
    sed 's/^/    /' <<<"$profiles"
    printf '\n'
    grep -v '^ ' <<<"$profiles" | while read -r profile; do
      printf '    serve.sh %s --checkpoint CHECKPOINT %s\n' "$profile" "$places_there"
    done
  fi
} >"$chunks/README.md.tmp"
mv -f "$chunks/README.md.tmp" "$chunks/README.md"
say "in   $chunks: ${sets[*]}, README.md"
for each in "${sets[@]}"; do say "next: $(printf %q "$here/upload.sh") $repo $each $(printf %q "$chunks")"; done
