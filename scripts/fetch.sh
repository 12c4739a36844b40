#!/usr/bin/env bash
# usage: fetch.sh REPO NAME [options]
#
# Fetches a set of chunks from a Hugging Face hub and unpacks it: with pack-chunks where it is on the PATH, else with curl,
# zstd, GNU tar, sha256sum and jq or python3. REPO is OWNER/REPO or datasets/OWNER/REPO; NAME may have directories in front.
# Run it again after an interruption and it continues; what is unpacked already is not fetched again.
#
#   --revision REV   branch, tag or commit (main)
#   --out DIR        directory to unpack into (.)
#   --parts DIR      directory to keep the parts in (default: none are kept)
#   -j N             downloads at a time (16 with pack-chunks, else 4)
#   --stream         without pack-chunks: store no part; everything is downloaded twice, the first time to check it
#   --delete         keep no parts (the default)
#   --no-unpack      only download and check; into --parts DIR, or NAME.parts
#   --as-root        allow unpacking as root without pack-chunks, with tar's protection only
# HF_TOKEN (or hf auth login): for private repositories. HF_ENDPOINT: another hub.
set -euo pipefail
. "$(dirname "$(readlink -f "$0")")/hub.sh"
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
wrong() { printf '%s: %s\n' "$(basename "$0")" "$*" | escaped >&2; usage >&2; exit 2; }

repo='' kind='' resolve='' located=''
revision=main out=. parts='' jobs='' mode=unpack as_root=false arguments=()
while [ $# -gt 0 ]; do
  case $1 in
    --revision | --out | --parts | -j)
      [ -n "${2:-}" ] || wrong "$1 needs a value"
      case $1 in --revision) revision=$2 ;; --out) out=$2 ;; --parts) parts=$2 ;; -j) jobs=$2 ;; esac
      shift ;;
    --stream | --no-unpack) mode=${1#--} ;;
    --delete) ;;
    --as-root) as_root=true ;;
    -h | --help) usage; exit 0 ;;
    -*) wrong "$1 is not an option" ;;
    *) arguments+=("$1") ;;
  esac
  shift
done
[ ${#arguments[@]} = 2 ] || wrong "give a repository and a name"
case $jobs in *[!0-9]* | 0*) wrong "-j takes a number" ;; esac
set_repo "${arguments[0]}"
name=${arguments[1]%/}
case $name in '' | /* | . | .. | ../* | */.. | */../*) wrong "$name is not a name in a repository" ;; esac
[ "$(printf '%s' "$name" | escaped)" = "$name" ] || wrong "the name holds control characters"
case $out in -*) out=./$out ;; esac
case $parts in -*) parts=./$parts ;; esac

if [ "$mode" != no-unpack ] && command -v pack-chunks >/dev/null && pack-chunks fetch --help >/dev/null 2>&1; then
  from=hf:$repo@$revision
  [ "$kind" = models ] || from=hf:$kind/$repo@$revision
  exec pack-chunks fetch "$from" "$name" --out "$out" ${jobs:+-j "$jobs"} ${parts:+--parts "$parts"}
fi

need curl zstd tar sha256sum awk
tar --version 2>/dev/null | grep -q GNU || die "GNU tar is needed"
[ "$(id -u)" != 0 ] || $as_root || [ "$mode" = no-unpack ] ||
  die "as root this needs pack-chunks on the PATH, which never writes outside the directory; or run it as another user, or give --as-root"

# The set with this path, else the only set with this name in any directory.
work=$(mktemp -d)
watcher=''
trap '[ -z "$watcher" ] || kill "$watcher" 2>/dev/null; rm -rf "$work"' EXIT
say "$repo at $revision: listing"
hub_listing "$revision" "$work/listing" || die "$repo at $revision: $HUB answers 404: there is no such repository or revision"
# parts_of DIRECTORY/NAME: lines of the listing, in order. A prefix is compared as text.
parts_of() { awk -F '\t' -v prefix="$(printf '%s' "$1" | sed 's/\\/\\\\/g').tar.zst.part." 'index($3, prefix) == 1 && substr($3, length(prefix) + 1) ~ /^[0-9a-z]+$/ && substr($3, length(prefix) + 1) != "tmp"' "$work/listing" | LC_ALL=C sort -t $'\t' -k 3; }
parts_of "$name" >"$work/parts"
if ! [ -s "$work/parts" ]; then
  others=$(awk -F '\t' '{ print $3 }' "$work/listing" | sed -n 's/\.tar\.zst\.part\.[0-9a-z]*$//p' | LC_ALL=C sort -u)
  found=$(while IFS= read -r each; do [ "${each##*/}" != "$name" ] || printf '%s\n' "$each"; done <<<"$others")
  case $found in
    '') die "$repo at $revision has no set '$name'; its sets: $(printf '%s' "${others:-none}" | tr '\n' ' ')" ;;
    *$'\n'*) die "$repo at $revision has several sets of this name: $(printf '%s' "$found" | tr '\n' ' ')" ;;
  esac
  name=$found
  parts_of "$name" >"$work/parts"
fi
# Decimal suffixes have no gaps, but split goes on with longer ones (89, 9000); others are seen when the archive is read.
missing=$(sed 's/.*\.//' "$work/parts" | awk '!/^[0-9]+$/ { exit } NR > 1 && length($0) == length(last) && $0 != last + 1 { print $0; exit } { last = $0 }')
[ -z "$missing" ] || die "$name.tar.zst.part.$missing: the part before it is missing on the hub: the upload is incomplete. Try again later"
short=${name##*/}
total=0 count=0
while IFS=$'\t' read -r size digest path; do
  [ "$digest" != - ] || die "$path: the hub lists no SHA-256 for it"
  total=$((total + size)) count=$((count + 1))
done <"$work/parts"
say "$name: $count parts, $total bytes"

# private DIR: creates it with mode 0700, or requires that it is ours and that no other user may write to it.
private() {
  if [ -L "$1" ] || { [ -e "$1" ] && ! [ -d "$1" ]; }; then die "$1: is in the way; it should be a directory of yours"; fi
  [ -d "$1" ] || mkdir -m 0700 "$1"
  [ -O "$1" ] || die "$1: belongs to user $(stat -c %U "$1"); parts are kept in a directory of your own only"
  case $(stat -c %a "$1") in *[2367]? | *[2367]) die "$1: others may write into it (mode $(stat -c %a "$1")); chmod go-w it" ;; esac
}
mkdir -p "$out"
record=$out/.$short.fetched  # what was unpacked, and from which parts
fingerprint() { sha256sum <"$work/parts" | cut -d ' ' -f 1; }
# state_of TOP...: a digest that changes when any file below changes.
state_of() { (cd "$out" && find "$@" -printf '%p %y %s %i %T@ %C@\n' 2>/dev/null | LC_ALL=C sort | sha256sum | cut -d ' ' -f 1); }
show_places() {
  local top
  for top in "$@"; do say "in   $out/$top"; done
  for top in "$@"; do
    if [ -d "$out/$top/v2" ]; then say "next: verify-ckpt-id check --planescache $(printf %q "$out/$top")"; return; fi
    if compgen -G "$out/$top/*.pack" >/dev/null; then say "next: verify-ckpt-id check --store $(printf %q "$out/$top")"; return; fi
  done
}
if [ "$mode" != no-unpack ] && [ -f "$record" ] && [ -O "$record" ]; then
  mapfile -t known <"$record"
  if [ "${known[0]:-}" = "$(fingerprint)" ] && [ "${known[1]:-}" = "$(state_of "${known[@]:2}")" ]; then
    say "$name: is unpacked already"
    show_places "${known[@]:2}"
    exit 0
  fi
fi

# stream SIZE PATH: writes the file to stdout, and continues where a connection broke.
stream() {
  local at=0 got stuck=0 status
  while [ "$at" -lt "$1" ]; do
    locate "$resolve/$(encoded "$revision")/$(encoded_path "$2")" "$2"
    status=0
    hub_curl "$located" -r "$at-$(($1 - 1))" -w '%{stderr}\n%{http_code} %{size_download}\n' 2>"$work/said" >&3 || status=$?
    got=$(tail -n 1 "$work/said")
    [ "$status" != 23 ] || return 1  # the reader has ended
    case $got in "206 "[0-9]*) got=${got#206 } ;; "200 "*) [ "$at" = 0 ] || die "$2: the server ignores ranges; use --parts"; got=${got#200 } ;; *) got=0 ;; esac
    at=$((at + got))
    if [ "$got" -gt 0 ]; then stuck=0; else stuck=$((stuck + 1)); fi
    [ "$stuck" -lt 6 ] || { say "$2: no progress any more at $at of $1 bytes"; return 1; }
    [ "$at" -ge "$1" ] || { say "$2: the connection broke at $at of $1 bytes; continuing"; sleep "$stuck"; }
  done 3>&1
}
# stream_all CHECK: all parts; with CHECK = check their digests are compared meanwhile.
stream_all() {
  local size digest path found
  while IFS=$'\t' read -r size digest path; do
    if [ "$1" = check ]; then
      rm -f "$work/pipe" "$work/sum"; mkfifo "$work/pipe"
      sha256sum <"$work/pipe" >"$work/sum" &
      stream "$size" "$path" | tee "$work/pipe" || return 1
      wait $!
      found=$(cut -d ' ' -f 1 "$work/sum")
      [ "$found" = "$digest" ] || { say "$path: the content is not what the hub lists: SHA-256 $found instead of $digest"; : >"$work/differs"; return 3; }
      say "$path: $size bytes, checked"
    else
      stream "$size" "$path" || return 1
    fi
  done <"$work/parts"
}

# fetch SIZE DIGEST PATH: downloads into the directory of parts; the file gets its name when its digest is right.
fetch() {
  local size=$1 digest=$2 path=$3 file temporary there before stuck=0 wrong=0 status code
  file=$parts/${path##*/} temporary=$parts/.${path##*/}.tmp
  if [ -f "$file" ] && ! [ -L "$file" ]; then
    # Size and times show whether it is the file whose digest was compared; else it is read.
    if [ "$(cat "$parts/.${path##*/}.checked" 2>/dev/null)" = "$digest $(stat -c '%s %i %.9Y %.9Z' "$file")" ]; then return 0; fi
    if [ "$(sha256sum <"$file" | cut -d ' ' -f 1)" = "$digest" ]; then remember "$file" "$digest"; return 0; fi
    say "$path: the file here has other content; fetching it"
    rm -f "$file"
  fi
  [ "$(cat "$temporary.of" 2>/dev/null)" = "$digest" ] || { rm -f "$temporary"; printf '%s\n' "$digest" >"$temporary.of"; }
  while :; do
    there=$(stat -c %s "$temporary" 2>/dev/null || echo 0)
    if [ "$there" -lt "$size" ]; then
      before=$there status=0
      locate "$resolve/$(encoded "$revision")/$(encoded_path "$path")" "$path"
      code=$(hub_curl "$located" -C - -o "$temporary" -w '%{http_code}' 2>/dev/null) || status=$?
      [ "$status" != 33 ] || rm -f "$temporary"  # the server has no ranges: start over
      there=$(stat -c %s "$temporary" 2>/dev/null || echo 0)
      if [ "$there" -gt "$before" ]; then stuck=0; else stuck=$((stuck + 1)); fi
      if [ "$there" -lt "$size" ]; then
        [ "$stuck" -lt 6 ] || { say "$path: no progress any more (the server answers $code, curl $status), $there of $size bytes are here"; return 1; }
        say "$path: the connection broke at $there of $size bytes; continuing"
        sleep "$stuck"
        continue
      fi
    fi
    if [ "$there" = "$size" ] && [ "$(sha256sum <"$temporary" | cut -d ' ' -f 1)" = "$digest" ]; then
      mv -f "$temporary" "$file"
      rm -f "$temporary.of"
      remember "$file" "$digest"
      say "$path: $size bytes, checked"
      return 0
    fi
    rm -f "$temporary"
    wrong=$((wrong + 1))
    [ "$wrong" -lt 3 ] || { say "$path: the content is not what the hub lists (size $size, SHA-256 $digest)"; return 3; }
    say "$path: the content is not what the hub lists; fetching it again"
  done
}
remember() { printf '%s %s\n' "$2" "$(stat -c '%s %i %.9Y %.9Z' "$1")" >"$parts/.${1##*/}.checked"; }
# Reports progress every ten seconds.
watch_parts() {
  local here
  while sleep 10; do
    here=$(find "$parts" -maxdepth 1 -name "*$short.tar.zst.part.*" ! -name '*.checked' ! -name '*.of' -printf '%s\n' 2>/dev/null | awk '{ s += $1 } END { printf "%.0f", s }')
    say "$here of $total bytes ($((total == 0 ? 100 : here * 100 / total)) %)"
  done
}

# Checks names and links of the archive on stdin: refuses what pack-chunks refuses.
check_archive() {
  LC_ALL=C tar --list --ignore-zeros --verbose --numeric-owner --quoting-style=c -f - 2>"$work/tar" | LC_ALL=C awk '
    function refuse(why) { if (!bad) print name ": " why; bad = 1 }
    function plain(text) { gsub(/\\"/, "\"", text); sub(/^\.\//, "", text); sub(/\/+$/, "", text); return text }
    function leads_out(text) { return text ~ /^\// || text ~ /(^|\/)\.\.(\/|$)/ }
    {
      type = substr($0, 1, 1)
      if (!match($0, /"([^"\\]|\\.)*"/)) { name = $0; refuse("cannot be read"); next }
      name = plain(substr($0, RSTART + 1, RLENGTH - 2)); rest = substr($0, RSTART + RLENGTH); target = ""
      if (match(rest, /"([^"\\]|\\.)*"/)) target = plain(substr(rest, RSTART + 1, RLENGTH - 2))
      if (type !~ /^[-dlh]$/) refuse("is not a file, directory or link")
      if (leads_out(name)) refuse("does not stay in the directory")
      if ((name target) ~ /\\([abtnvfr]|0[0-3][0-7]|177)/) refuse("has control characters in its name")
      if (name == "" || name == ".") next
      if (name in types && types[name] != "d") refuse("is in the archive twice")
      if (type == "h" && types[target] != "-") refuse("is a hard link to \"" target "\", which is not an earlier file of the archive")
      types[name] = type; targets[name] = target
    }
    END {
      for (name in types) {
        n = split(name, part, "/"); path = ""
        for (i = 1; i < n; ++i) {
          path = path (i > 1 ? "/" : "") part[i]
          if (path in types && types[path] != "d") refuse("is below something that is not a directory")
        }
        if (types[name] != "l") continue
        if (targets[name] ~ /^\//) refuse("is a link that leads out of the directory")
        depth = n - 1; n = split(targets[name], part, "/")
        for (i = 1; i <= n; ++i) {
          if (part[i] == "..") { if (--depth < 0) refuse("is a link that leads out of the directory") }
          else if (part[i] != "" && part[i] != ".") { ++depth; seen = 1 }
          # ".." after a name may lead out through another link
          if (part[i] == ".." && seen) refuse("is a link with \"..\" after a name")
        }
        seen = 0
      }
      exit bad
    }' >"$work/refused" && return
  if [ -s "$work/refused" ]; then
    say "the archive is refused: $(head -n 1 "$work/refused")"
  else
    say "the archive is not whole, a part is missing or damaged: $(head -n 1 "$work/tar")"
  fi
  return 1
}
bytes() { if [ "$mode" = stream ]; then stream_all "${1:-}"; else while IFS=$'\t' read -r _ _ path; do cat "$parts/${path##*/}"; done <"$work/parts"; fi; }

keep=true
[ -n "$parts" ] || { parts=$out/$short.parts; [ "$mode" = no-unpack ] || { parts=$out/.$short.parts keep=false; }; }
if [ "$mode" != stream ]; then
  mkdir -p "$(dirname "$parts")"
  private "$parts"
  watch_parts & watcher=$!
  failed=0 running=0
  while IFS=$'\t' read -r size digest path <&4; do
    if [ "$running" -ge "${jobs:-4}" ]; then wait -n || failed=$?; running=$((running - 1)); fi
    fetch "$size" "$digest" "$path" 4<&- &
    running=$((running + 1))
  done 4<"$work/parts"
  kill "$watcher"; wait "$watcher" 2>/dev/null || true; watcher=''
  while [ "$running" -gt 0 ]; do wait -n || failed=$?; running=$((running - 1)); done
  [ "$failed" = 0 ] || { say "not all parts are here; run the same command again to continue"; exit "$failed"; }
  if [ "$mode" = no-unpack ]; then say "in   $parts"; exit 0; fi
fi

say "$name: checking the names in the archive"
bytes check | zstd -dcq --long=27 | check_archive || { [ ! -e "$work/differs" ] || exit 3; exit 1; }

fresh=$(mktemp -d "$out/.$short.XXXXXX")
chmod 0700 "$fresh"
say "$name: unpacking"
bytes | zstd -dcq --long=27 | tar --extract --ignore-zeros --sparse --no-same-owner --no-same-permissions -C "$fresh" -f - ||
  { rm -rf "$fresh"; die "unpacking failed; run the same command again to continue"; }
find "$fresh" -mindepth 1 ! -type l -perm /7000 -exec chmod a-st {} +
mapfile -t tops < <(cd "$fresh" && find . -mindepth 1 -maxdepth 1 -printf '%P\n')
for top in "${tops[@]}"; do
  if [ -e "$out/$top" ] || [ -L "$out/$top" ]; then
    rm -rf "$fresh"
    die "$out/$top: is there already; move it away, or use another --out, and run the same command again"
  fi
done
for top in "${tops[@]}"; do mv -T "$fresh/$top" "$out/$top"; done
rmdir "$fresh"
{ fingerprint; state_of "${tops[@]}"; printf '%s\n' "${tops[@]}"; } >"$work/record"
mv -f "$work/record" "$record"
if ! $keep && [ "$mode" != stream ]; then rm -rf "$parts"; fi
show_places "${tops[@]}"
