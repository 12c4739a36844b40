#!/usr/bin/env bash
# usage: upload.sh REPO NAME DIR [options]
#
# Uploads a set of chunks (made by pack-chunks) to a Hugging Face hub with the `hf` command. Reads every part and compares it
# with the manifest before sending it, sends the manifest last, and compares what the hub lists with the local files. Does
# not send parts again that the hub has: run it again after an interruption and it continues. Creates repository (OWNER/REPO
# or datasets/OWNER/REPO) and branch if they are missing.
#
#   --revision REV      branch (main)
#   --private           make a new repository private
#   --watch             upload parts while pack-chunks is still packing; ends when the manifest exists
#   --delete-uploaded   remove each local part once the hub has it, so that a set may be larger than the free space
#   --batch N           parts in one commit (32): the hub allows 128 commits an hour
# HF_TOKEN, HF_ENDPOINT: as for hf. Reads JSON with jq or python3.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/hub.sh"
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
wrong() { printf '%s: %s\n' "$(basename "$0")" "$*" | escaped >&2; usage >&2; exit 2; }

repo='' kind=''
revision=main watch=false delete=false private=() batch=32 arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --revision | --batch)
      [ -n "${2:-}" ] || wrong "$1 needs a value"
      if [ "$1" = --batch ]; then batch=$2; else revision=$2; fi
      shift ;;
    --private) private=(--private) ;;
    --watch) watch=true ;;
    --delete-uploaded) delete=true ;;
    -h | --help) usage; exit 0 ;;
    -*) wrong "$1 is not an option" ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
[ ${#arguments[@]} = 3 ] || wrong "give a repository, a name and a directory"
case $batch in '' | *[!0-9]* | 0*) wrong "--batch takes a number" ;; esac
set_repo "${arguments[0]}"
name=${arguments[1]} dir=${arguments[2]}
case $name in '' | */* | -* | . | ..) wrong "$name is not the name of a set" ;; esac
case $dir in -*) dir=./$dir ;; esac
need curl sha256sum
if command -v hf >/dev/null; then hf=hf
elif command -v huggingface-cli >/dev/null; then hf=huggingface-cli
else die "the hf command is needed to upload (in a virtual environment: pip install -U huggingface_hub)"; fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/compared"
# The manifest, under its present or its former name.
find_manifest() {
  manifest=''
  local each
  for each in "manifest.$name.json" "$name.manifest.json"; do [ ! -f "$dir/$each" ] || { manifest=$dir/$each; return; }; done
}
# Only complete parts have such a name.
local_parts() { find "$dir" -maxdepth 1 -type f -printf '%f\n' | while IFS= read -r file; do case $file in "$name".tar.zst.part.*[!0-9]*) ;; "$name".tar.zst.part.[0-9]*) printf '%s\n' "$file" ;; esac; done | LC_ALL=C sort; }
list_hub() {
  local status=0
  hub_listing "$revision" "$work/listing" || status=$?
  [ "$status" = 0 ] || : >"$work/listing"  # it does not exist yet: hf creates it
}
# listed FILE: "SIZE SHA256" according to the hub.
listed() { awk -F '\t' -v path="$1" '$3 == path { print $1, $2 }' "$work/listing"; }
# expected FILE: "SIZE SHA256" according to the manifest.
expected() { awk -F '\t' -v path="$1" '$3 == path { print $1, $2 }' "$work/manifest"; }
# compared FILE: "SIZE SHA256" of a local part; each part is read once in a run.
compared() {
  local path=$dir/$1 stamp known
  stamp=$(stat -c '%s %i %.9Y %.9Z' "$path")
  known=$(awk -F '\t' -v path="$1" -v stamp="$stamp" '$1 == path && $2 == stamp { print $3 }' "$work/compared" | tail -n 1)
  if [ -z "$known" ]; then
    known="$(stat -c %s "$path") $(sha256sum <"$path" | cut -d ' ' -f 1)"
    printf '%s\t%s\t%s\n' "$1" "$stamp" "$known" >>"$work/compared"
  fi
  printf '%s' "$known"
}
require_right() {  # PART: ends the script unless the local part is what the manifest says
  local want have
  [ -n "$manifest" ] || return 0
  want=$(expected "$1")
  [ -n "$want" ] || { say "$dir/$1: is not in $manifest; move it away"; exit 3; }
  have=$(compared "$1")
  [ "$have" = "$want" ] || { say "$dir/$1: is damaged: $have instead of $want; nothing more is sent. Pack it again"; exit 3; }
}
# send FILE...: uploads the files in one commit.
send() {
  local stage=$work/stage file
  rm -rf "$stage"
  mkdir "$stage"
  for file in "$@"; do ln -s "$(realpath "$dir/$file")" "$stage/$file"; done
  say "uploading $# files: $1 .. ${*: -1}"
  "$hf" upload "$repo" "$stage" . --repo-type "${kind%s}" --revision "$revision" "${private[@]}" \
    --commit-message "$name: $1 .. ${*: -1}" >&2 || die "the upload failed; run the same command again to continue"
}
read_manifest() {
  find_manifest
  [ -n "$manifest" ] || return 0
  json manifest "$manifest" >"$work/manifest" 2>/dev/null || die "$manifest: is not a manifest"
  [ -s "$work/manifest" ] || die "$manifest: lists no parts"
  ! awk -F '\t' '$2 == "-"' "$work/manifest" | grep -q . || die "$manifest: has no SHA-256 digests (packed with --hash xxh3), so the hub could not be checked; pack it with --hash both"
}

find_manifest
$watch || [ -n "$manifest" ] || die "$dir/manifest.$name.json is not there: packing is not complete (--watch uploads meanwhile)"
list_hub
while :; do
  read_manifest  # read before the parts are listed: if it exists, all parts do
  ready=()
  while IFS= read -r part; do
    [ -n "$part" ] || continue
    require_right "$part"
    if [ "$(listed "$part")" = "$(compared "$part")" ]; then
      ! $delete || { rm -f "$dir/$part"; say "$part: the hub has it; removed here"; }
    else
      ready+=("$part")
    fi
    [ ${#ready[@]} -lt "$batch" ] || break
  done < <(local_parts)
  if [ ${#ready[@]} = 0 ]; then
    [ -z "$manifest" ] || break
    sleep 5
    continue
  fi
  before=$(for part in "${ready[@]}"; do printf '%s %s\n' "$part" "$(compared "$part")"; done)
  send "${ready[@]}"
  list_hub
  # The hub must have what was read here; otherwise a part changed during the upload or was damaged there.
  while read -r part size digest; do
    [ "$(listed "$part")" = "$size $digest" ] || { say "$part: the hub lists '$(listed "$part")', here it is '$size $digest'; the manifest is not sent"; exit 3; }
  done <<<"$before"
  # One commit per part would reach the hub's limit if parts come slowly.
  [ -n "$manifest" ] || [ ${#ready[@]} -ge "$batch" ] || sleep "${PLANESMITH_UPLOAD_PAUSE:-30}"
done

# Parts that were removed here must be on the hub.
while IFS=$'\t' read -r size digest part; do
  [ "$(listed "$part")" = "$size $digest" ] || { say "$part: the hub lists '$(listed "$part")', the manifest says '$size $digest'; the manifest is not sent"; exit 3; }
done <"$work/manifest"
last=()
for file in README.md "SHA256SUMS.$name"; do [ ! -f "$dir/$file" ] || last+=("$file"); done
send "${last[@]}" "$(basename "$manifest")"

list_hub
wrong=0
for file in "${last[@]}" "$(basename "$manifest")"; do
  have=$(listed "$file") want=$(compared "$file")
  # Small files are not LFS files; the hub lists only their size.
  [ "$have" = "$want" ] || [ "$have" = "${want%% *} -" ] || { say "$file: the hub lists '$have', here it is '$want'"; wrong=1; }
done
while IFS=$'\t' read -r size digest part; do
  [ "$(listed "$part")" = "$size $digest" ] || { say "$part: the hub lists '$(listed "$part")', the manifest says '$size $digest'"; wrong=1; }
done <"$work/manifest"
[ "$wrong" = 0 ] || exit 3
say "$repo holds $name: $(wc -l <"$work/manifest") parts and the manifest, as they are here"
say "next: pack-chunks fetch hf:$([ "$kind" = models ] || printf '%s/' "$kind")$repo$([ "$revision" = main ] || printf '@%s' "$revision") $name --out DIR"
