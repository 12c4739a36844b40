#!/usr/bin/env bash
# Fetches a set of chunks (made by pack-chunks) from a Hugging Face hub and unpacks it. Needs curl; unpacks with
# pack-chunks where it is on the PATH, else with zstd and tar. Run it again after an interruption: it goes on.
#   fetch.sh REPO NAME [options]
#     --revision REV   branch, tag or commit (main)
#     --out DIR        directory to unpack into (.)
#     --parts DIR      directory that the parts are kept in (OUT/NAME.parts)
#     -j N             downloads at a time (4)
#     --stream         unpack while downloading: no part is ever stored
#     --delete         remove each part once its content is durable (needs pack-chunks)
#     --no-unpack      only download and check
# HF_TOKEN: for private repositories. HF_ENDPOINT: another hub.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/hub.sh"
usage() { sed -n '2,13s/^# \{0,1\}//p' "$0" >&2; exit 2; }

revision=main out=. parts='' jobs=4 mode=keep repo='' name=''
while [ $# -gt 0 ]; do
  case $1 in
    --revision) revision=${2:?}; shift ;;
    --out) out=${2:?}; shift ;;
    --parts) parts=${2:?}; shift ;;
    -j) jobs=${2:?}; shift ;;
    --stream | --delete | --no-unpack) mode=${1#--} ;;
    -h | --help) sed -n '2,13s/^# \{0,1\}//p' "$0"; exit 0 ;;
    -*) usage ;;
    *) if [ -z "$repo" ]; then repo=$1; elif [ -z "$name" ]; then name=$1; else usage; fi ;;
  esac
  shift
done
[ -n "$name" ] || usage
case $jobs in '' | *[!0-9]* | 0) usage ;; esac
command -v curl >/dev/null || die "curl is needed"
unpacker=$(command -v pack-chunks || true)
[ "$mode" != delete ] || [ -n "$unpacker" ] || die "--delete needs pack-chunks on the PATH"
parts=${parts:-$out/$name.parts}
mkdir -p "$out" "$parts"

# what there is: arrays of path, size, digest
listing=$(hub_listing "$repo" "$revision") || die "$HUB: the files of $repo at $revision cannot be listed"
paths=() sizes=() digests=() manifest=''
while read -r size digest path; do
  case $path in
    "$name".tar.zst.part.*[!0-9]*) continue ;;
    "$name".tar.zst.part.[0-9]*) paths+=("$path") sizes+=("$size") digests+=("$digest") ;;
    manifest."$name".json | "$name".manifest.json) manifest=$path manifest_size=$size manifest_digest=$digest ;;
  esac
done < <(LC_ALL=C sort -k3 <<<"$listing")
[ ${#paths[@]} -gt 0 ] || die "$repo at $revision has no parts named $name.tar.zst.part.NNN"
[ -n "$manifest" ] || die "$repo at $revision has no manifest.$name.json yet: the upload is not complete"

# fetch PATH SIZE DIGEST: into the parts' directory, under its name only when it is right
fetch() {
  local path=$1 size=$2 digest=$3 file=$parts/$1 there before stuck=0 wrong=0 status code
  [ -f "$file" ] && [ "$(stat -c %s "$file")" = "$size" ] && return 0
  mkdir -p "$(dirname "$file")"
  while :; do
    there=$(stat -c %s "$file.tmp" 2>/dev/null || echo 0)
    if [ "$there" -lt "$size" ]; then
      status=0
      before=$there
      code=$(hub_curl -C - -o "$file.tmp" -w '%{http_code}' "$HUB/$repo/resolve/$revision/$path") || status=$?
      [ "$status" != 22 ] || stop_if_refused "$code" "$path"
      there=$(stat -c %s "$file.tmp" 2>/dev/null || echo 0)
      [ "$status" != 33 ] || rm -f "$file.tmp"  # no ranges here: all over again
      if [ "$there" -gt "$before" ]; then stuck=0; else stuck=$((stuck + 1)); fi
      if [ "$there" -lt "$size" ]; then
        [ "$stuck" -lt 6 ] || { say "$path: no progress any more (curl status $status), $there of $size bytes are here"; return 1; }
        sleep "$stuck"
        continue
      fi
    fi
    if [ "$there" = "$size" ] && { [ "$digest" = - ] || [ "$(sha256sum <"$file.tmp" | cut -d' ' -f1)" = "$digest" ]; }; then
      mv "$file.tmp" "$file"
      say "$path: $size bytes, checked"
      return 0
    fi
    rm -f "$file.tmp"
    wrong=$((wrong + 1))
    [ "$wrong" -lt 3 ] || { say "$path: what comes is not what the hub lists (size $size, SHA-256 $digest)"; return 1; }
    say "$path: is not what the hub lists; once more"
  done
}

# stream PATH SIZE: to standard output, going on where a connection broke
stream() {
  local path=$1 size=$2 at=0 got code stuck=0 status
  while [ "$at" -lt "$size" ]; do
    status=0
    got=$(hub_curl -C "$at" -w '%{stderr}\n%{http_code} %{size_download}' "$HUB/$repo/resolve/$revision/$path" 2>&1 >&3) || status=$?
    [ "$status" != 23 ] || return 2  # nobody reads any more
    got=${got##*$'\n'} code=${got%% *} got=${got##* }
    [ "$status" != 22 ] || stop_if_refused "$code" "$path"
    case $got in *[!0-9]* | '') got=0 ;; esac
    at=$((at + got))
    if [ "$got" -gt 0 ]; then stuck=0; else stuck=$((stuck + 1)); fi
    [ "$stuck" -lt 6 ] || { say "$path: no progress any more at $at of $size bytes"; return 1; }
    [ "$at" -ge "$size" ] || sleep "$stuck"
  done 3>&1
}

fetch "$manifest" "$manifest_size" "$manifest_digest" || exit 1

if [ "$mode" = stream ]; then
  all() { for i in "${!paths[@]}"; do stream "${paths[i]}" "${sizes[i]}" || return; done; }
  if [ -n "$unpacker" ]; then
    all | "$unpacker" unpack - --manifest "$parts/$manifest" --out "$out" || {
      status=("${PIPESTATUS[@]}")
      [ "${status[0]}" != 1 ] || exit 1  # what pack-chunks found missing was never received
      exit "${status[1]}"
    }
  else
    all | zstd -dq --long=27 | tar -x --sparse -C "$out"
  fi
  rm -f "$parts/$manifest"
  rmdir "$parts" 2>/dev/null || true
  exit 0
fi

failed=0 running=0
for i in "${!paths[@]}"; do
  if [ "$running" -ge "$jobs" ]; then wait -n || failed=1; running=$((running - 1)); fi
  fetch "${paths[i]}" "${sizes[i]}" "${digests[i]}" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do wait -n || failed=1; running=$((running - 1)); done
[ "$failed" = 0 ] || die "not all parts are here; run the same command again to go on"

[ "$mode" != no-unpack ] || exit 0
if [ -n "$unpacker" ]; then
  flags=()
  [ "$mode" != delete ] || flags=(--stream-delete)
  "$unpacker" unpack "$parts" --name "$name" --out "$out" "${flags[@]}"
else
  cat "${paths[@]/#/$parts/}" | zstd -dq --long=27 | tar -x --sparse -C "$out"
fi
