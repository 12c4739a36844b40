# shellcheck shell=bash disable=SC2034,SC2154 # variables are shared with the sourcing script
# Common to fetch.sh and upload.sh: talks to a Hugging Face hub with curl, reads its JSON with jq or python3. Sourced, not
# run. The token goes to the hub's own scheme, host and port only; curl reads no .curlrc, expands no brackets and uses only
# http and https; what the hub sends is limited in size and printed escaped. Temporary files go into the directory `work`, which
# the sourcing script makes and removes.
HUB=${HF_ENDPOINT:-https://huggingface.co}
HUB=${HUB%/}

say() { printf '%s\n' "$*" | escaped >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" | escaped >&2; exit 1; }
# Control characters as question marks; UTF-8 stays.
escaped() { LC_ALL=C tr '\000-\010\013-\037\177' '?'; }
need() { local each; for each in "$@"; do command -v "$each" >/dev/null || die "$each is needed"; done; }

case $HUB in
  http://?* | https://?*) ;;
  *) die "HF_ENDPOINT should be an http or https URL" ;;
esac
case $HUB in *[!A-Za-z0-9.:/_~%-]*) die "HF_ENDPOINT has characters that a plain URL cannot have" ;; esac

# The token of HF_TOKEN, else of the file that `hf auth login` writes.
hub_token() {
  local token=${HF_TOKEN:-} file=${HF_TOKEN_PATH:-${HF_HOME:-${XDG_CACHE_HOME:-${HOME:-/nonexistent}/.cache}/huggingface}/token}
  [ -n "$token" ] || token=$(head -c 4096 "$file" 2>/dev/null | head -n 1) || true
  case $token in *[!A-Za-z0-9._~+/=-]*) die "the token has characters that a token cannot have; it is not used" ;; esac
  printf '%s' "$token"
}
TOKEN=$(hub_token)

# origin URL: prints scheme, host and port, normalized.
origin() {
  local scheme=${1%%://*} rest=${1#*://}
  rest=${rest%%[/?#]*}
  rest=${rest,,}
  case $rest in *:*) ;; *) if [ "${scheme,,}" = https ]; then rest=$rest:443; else rest=$rest:80; fi ;; esac
  printf '%s://%s' "${scheme,,}" "$rest"
}

# hub_curl URL ARGUMENTS...: runs curl, with the token if the URL is the hub's. The token stays out of the process list.
hub_curl() {
  local url=$1
  shift
  case $url in http://* | https://*) ;; *) die "$url: is neither an http nor an https URL" ;; esac
  case ${url#*://} in *@*/* | *@) die "$url: a URL with a user name in it is not used" ;; esac
  local common=(-q -sS --fail --globoff --proto '=http,https' --connect-timeout 20 --speed-limit 1000 --speed-time 20)
  if [ -n "$TOKEN" ] && [ "$(origin "$url")" = "$(origin "$HUB")" ]; then
    curl "${common[@]}" -K <(printf 'header = "Authorization: Bearer %s"\n' "$TOKEN") "$@" --url "$url"
  else
    curl "${common[@]}" "$@" --url "$url"
  fi
}

# stop_if_refused HTTP-STATUS WHAT: ends the script if another attempt would not help.
stop_if_refused() {
  case $1 in
    401 | 403)
      [ -z "$TOKEN" ] || die "$2: $HUB answers $1: the token in HF_TOKEN may not read it (is the repository gated, the token expired?)"
      die "$2: $HUB answers $1: it is private, gated or not there; set HF_TOKEN to a token that may read it" ;;
    404) die "$2: $HUB answers 404: there is no such repository, revision or file" ;;
    400 | 405 | 410 | 416) die "$2: the server answers $1" ;;
  esac
}

# wait_after HTTP-STATUS HEADERS ATTEMPT WHAT: sleeps as long as the server asks, else longer with each attempt.
wait_after() {
  local asked seconds=$((1 << ($3 < 5 ? $3 - 1 : 5)))
  asked=$(sed -n 's/^[Rr]etry-[Aa]fter: *\([0-9]\{1,6\}\).*/\1/p' "$2" 2>/dev/null | tail -n 1)
  if [ -n "$asked" ]; then seconds=$asked; elif [ "$1" = 429 ] && [ "$seconds" -lt 10 ]; then seconds=10; fi
  [ "$seconds" -le 3600 ] || die "$4: the server asks to wait $seconds s; run the same command again then"
  [ "$seconds" -ge 1 ] || seconds=1
  say "$4: $(if [ "$1" = 000 ]; then echo 'the connection broke'; else echo "the server answers $1"; fi); again in $seconds s"
  sleep "$seconds"
}

# again MOST HTTP-STATUS HEADERS WHAT: counts a failure in the caller's `attempt` and `limited` and waits before the next
# attempt. Ends the script after MOST failures other than rate limits, or if another attempt would not help.
again() {
  stop_if_refused "$2" "$4"
  attempt=$((attempt + 1))
  if [ "$2" = 429 ]; then limited=$((limited + 1)); [ "$limited" -lt 40 ] || die "$4: the rate limit does not end"
  else [ $((attempt - limited)) -lt "$1" ] || die "$4: no answer after $attempt attempts"; fi
  wait_after "$2" "$3" "$attempt" "$4"
}

# locate URL WHAT: follows redirects and sets `located` to the final URL.
locate() {
  local hops code attempt=0 answer limited=0 url head
  head=$(mktemp -p "$work")
  while :; do
    url=$1 code=000
    for hops in 1 2 3 4 5 6 7 8 9 10 11; do
      [ "$hops" -le 10 ] || die "$2: the server redirects without end"
      # Ask for one byte; --max-filesize ends the transfer if the server ignores ranges.
      answer=$(hub_curl "$url" -r 0-0 -D "$head" -w '\n%{http_code} %{redirect_url}' -o /dev/null --max-filesize 1 2>/dev/null) || true
      answer=${answer##*$'\n'} code=${answer%% *}
      case $code in
        30[12378]) url=${answer#* } ;;
        *) break ;;
      esac
    done
    case $code in
      200 | 206 | 416) located=$url; rm -f "$head"; return 0 ;;  # 416: the file is empty
    esac
    again 6 "$code" "$head" "$2"
  done
}

# hub_document URL FILE HEADERS WHAT: fetches a document of at most 64 MiB. Returns 4 if it does not exist.
hub_document() {
  local code attempt=0 limited=0
  while :; do
    code=$(hub_curl "$1" -D "$3" --max-filesize 67108864 -o "$2" -w '%{http_code}' 2>/dev/null) && {
      case $code in
        200) [ "$(stat -c %s "$2")" -le 67108864 ] || die "$4: the server sends more than it should"; return 0 ;;
        30[12378]) locate "$1" "$4"; [ "$located" != "$1" ] || die "$4: the server redirects to itself"
           set -- "$located" "$2" "$3" "$4"; continue ;;
      esac
    }
    [ "$code" != 404 ] || return 4
    again 5 "$code" "$3" "$4"
  done
}

# encoded TEXT: percent-encodes it for a URL, '/' too.
encoded() {
  local LC_ALL=C text=$1 i c
  for ((i = 0; i < ${#text}; i++)); do
    c=${text:i:1}
    case $c in [A-Za-z0-9._~-]) printf '%s' "$c" ;; *) printf '%%%02X' "'$c" ;; esac
  done
}
encoded_path() { local text; text=$(encoded "$1"); printf '%s' "${text//%2F//}"; }  # keeps '/'

# json KIND FILE: a line "SIZE<tab>SHA256 or -<tab>PATH" for each file of a listing, or of a manifest (KIND: listing,
# manifest). Errors: names with control characters; not a list of files.
json() {
  if command -v jq >/dev/null; then
    jq -r --arg kind "$1" '
      (if $kind == "listing" then .[] | select(.type == "file") else .files[] end)
      | [(.lfs.size // .size), (.lfs.oid // .lfs.sha256 // .sha256 // "-"), .path]
      | if (.[0] | type) == "number" and .[0] >= 0 and .[0] == (.[0] | floor) and .[0] < 1e15
           and (.[1] | test("^([0-9a-f]{64}|-)$")) and (.[2] | type) == "string"
           and (.[2] | explode | all(. >= 32 and . != 127)) then "\(.[0])\t\(.[1])\t\(.[2])" else error("not a list of files") end' "$2"
  elif command -v python3 >/dev/null; then
    python3 -c '
import json, re, sys
entries = json.load(open(sys.argv[2], encoding="utf-8"))
entries = [e for e in entries if e["type"] == "file"] if sys.argv[1] == "listing" else entries["files"]
for entry in entries:
    lfs = entry.get("lfs") or {}
    size, path = lfs.get("size", entry["size"]), entry["path"]
    digest = lfs.get("oid") or lfs.get("sha256") or entry.get("sha256") or "-"
    if type(size) is not int or not 0 <= size < 10**15 or not re.fullmatch("[0-9a-f]{64}|-", digest) or not all(c >= " " and c != "\x7f" for c in path):
        sys.exit("not a list of files")
    print(size, digest, path, sep="\t")' "$1" "$2"
  else
    die "jq or python3 is needed to read JSON"
  fi
}

# set_repo REPO: OWNER/REPO or datasets/OWNER/REPO; sets `repo`, `kind` (models, datasets) and `resolve` (its URL).
set_repo() {
  repo=${1#hf:} kind=models
  case $repo in datasets/*) kind=datasets repo=${repo#datasets/} ;; esac
  case $repo in */*/* | /* | */ | *[!A-Za-z0-9._/-]* | .* | */.*) die "$1: should be OWNER/REPO or datasets/OWNER/REPO" ;; */*) ;; *) die "$1: should be OWNER/REPO or datasets/OWNER/REPO" ;; esac
  resolve=$HUB/$repo/resolve
  [ "$kind" = models ] || resolve=$HUB/datasets/$repo/resolve
}

# hub_listing REVISION FILE: writes a line "SIZE SHA256 PATH" (with tabs) for each file of `repo`, page by page. Links to
# other pages are followed on the hub's own origin only. Returns 4 if the repository or revision does not exist.
hub_listing() {
  local url head page pages=0 next status
  url="$HUB/api/$kind/$repo/tree/$(encoded "$1")?recursive=true"
  head=$(mktemp -p "$work") page=$(mktemp -p "$work")
  : >"$2"
  while [ -n "$url" ]; do
    pages=$((pages + 1))
    [ "$pages" -le 2000 ] || die "$repo: the listing has no end"
    status=0
    hub_document "$url" "$page" "$head" "$repo at $1" || status=$?
    [ "$status" = 0 ] || { rm -f "$head" "$page"; return "$status"; }
    json listing "$page" >>"$2" 2>/dev/null || die "$repo at $1: the hub's answer is not a list of files"
    next=$(LC_ALL=C sed -n 's/^[Ll]ink:.*<\([^>]*\)>; *rel="next".*/\1/p' "$head" | tail -n 1 | tr -d '\r')
    [ -n "$next" ] || break
    case $next in
      http://* | https://*)
        if [ "$(origin "$next")" = "$(origin "$HUB")" ]; then next=${next#*://}; next=${HUB%%://*}://$next
        else next=${next#*://}; next=$HUB/${next#*/}; fi ;;
      /*) next=${HUB%%://*}://$(rest=${HUB#*://}; printf '%s' "${rest%%/*}")$next ;;
      *) die "$repo: the listing's next page is not a URL" ;;
    esac
    [ "$next" != "$url" ] || die "$repo: the listing has no end"
    url=$next
  done
  rm -f "$head" "$page"
}
