#!/usr/bin/env bash
# Uploads a set of chunks (made by pack-chunks) to a Hugging Face hub with the `hf` command, and compares what the hub
# then lists with what is here. Parts that are there already with the same digest are not uploaded again.
#   upload.sh REPO NAME DIR [options]
#     --revision REV   branch (main)
#     --watch          upload parts while pack-chunks still makes others; ends when the manifest is there
# HF_TOKEN, HF_ENDPOINT: as for hf.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/hub.sh"
usage() { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }

revision=main watch=false arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --revision) revision=${2:?}; shift ;;
    --watch) watch=true ;;
    -h | --help) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) usage ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
[ ${#arguments[@]} = 3 ] || usage
repo=${arguments[0]} name=${arguments[1]} dir=${arguments[2]}
command -v curl >/dev/null || die "curl is needed"
if command -v hf >/dev/null; then hf=hf
elif command -v huggingface-cli >/dev/null; then hf=huggingface-cli
else die "the hf command is needed to upload (pip install -U huggingface_hub)"; fi

manifest=$dir/manifest.$name.json
[ -f "$manifest" ] || [ ! -f "$dir/$name.manifest.json" ] || manifest=$dir/$name.manifest.json  # made by an earlier version
$watch || [ -f "$manifest" ] || die "$manifest is not there: packing is not complete (--watch uploads while it goes on)"

# Only whole parts carry such a name.
local_parts() { find "$dir" -maxdepth 1 -type f -name "$name.tar.zst.part.*" | grep -E '\.part\.[0-9]+$' | LC_ALL=C sort || true; }
digest_of() {  # from the manifest where it is there, else by reading
  local known=''
  [ ! -f "$manifest" ] || known=$(grep -F "\"path\": \"$(basename "$1")\"" "$manifest" | sed -n 's/.*"sha256": "\([0-9a-f]*\)".*/\1/p' | head -n1)
  if [ -n "$known" ]; then echo "$known"; else sha256sum <"$1" | cut -d' ' -f1; fi
}
listing=$(hub_listing "$repo" "$revision") || die "$HUB: the files of $repo at $revision cannot be listed"
listed() { awk -v path="$(basename "$1")" '$3 == path { print $1, $2 }' <<<"$listing"; }
send() {
  say "uploading $(basename "$1")"
  "$hf" upload "$repo" "$1" "$(basename "$1")" --revision "$revision" >&2 || die "$1: the upload failed; run the same command again to go on"
}

declare -A sent=()
while :; do
  complete=false
  [ ! -f "$manifest" ] || complete=true  # asked before the parts: they are all there then
  while IFS= read -r part; do
    [ -n "$part" ] && [ -z "${sent[$part]:-}" ] || continue
    [ "$(listed "$part")" = "$(stat -c %s "$part") $(digest_of "$part")" ] || send "$part"
    sent[$part]=1
  done < <(local_parts)
  ! $complete || break
  sleep 5
done
list=$dir/SHA256SUMS.$name
[ ! -f "$list" ] || send "$list"
send "$manifest"  # last: where it is, all parts are

listing=$(hub_listing "$repo" "$revision") || die "$HUB: the files of $repo at $revision cannot be listed"
wrong=0
for file in "${!sent[@]}" "$manifest"; do
  want="$(stat -c %s "$file") $(digest_of "$file")" have=$(listed "$file")
  # Small files are no LFS files; the hub lists their size only.
  [ "$have" = "$want" ] || [ "$have" = "${want%% *} -" ] || { say "$(basename "$file"): the hub lists '$have', here it is '$want'"; wrong=1; }
done
[ "$wrong" = 0 ] || exit 3
say "$repo holds $name: ${#sent[@]} parts and the manifest, as they are here"
