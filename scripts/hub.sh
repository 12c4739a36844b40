# shellcheck shell=bash
# What fetch.sh and upload.sh share: talking to a Hugging Face hub with nothing but curl. Sourced, not run.
HUB=${HF_ENDPOINT:-https://huggingface.co}
HUB=${HUB%/}

die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
say() { printf '%s\n' "$*" >&2; }

# hub_curl ARGUMENTS...: curl with the token, which stays out of the process list.
hub_curl() {
  if [ -n "${HF_TOKEN:-}" ]; then
    curl -sS -L --fail --connect-timeout 30 --speed-limit 1 --speed-time 60 -K <(printf 'header = "Authorization: Bearer %s"\n' "$HF_TOKEN") "$@"
  else
    curl -sS -L --fail --connect-timeout 30 --speed-limit 1 --speed-time 60 "$@"
  fi
}

# stop_if_refused HTTP-STATUS WHAT: ends the script where asking again will not help.
stop_if_refused() {
  case $1 in
    401 | 403)
      if [ -n "${HF_TOKEN:-}" ]; then die "$2: $HUB answers $1: the token in HF_TOKEN may not read it (is the repository gated, the token expired?)"; fi
      die "$2: $HUB answers $1: it is private, gated or not there; set HF_TOKEN to a token that may read it" ;;
    404) die "$2: $HUB answers 404: there is no such repository, revision or file" ;;
  esac
}

# One line "SIZE SHA256-or-dash PATH" for each file in a JSON tree listing.
read_listing() {
  awk 'BEGIN { RS = "\001" } {
    n = length($0); depth = 0; key = ""; inside = ""
    for (i = 1; i <= n; i++) {
      c = substr($0, i, 1)
      if (c == "\"") {  # a string
        s = ""
        for (i++; i <= n && (c = substr($0, i, 1)) != "\""; i++) {
          if (c == "\\") { i++; c = substr($0, i, 1) }
          s = s c
        }
        value = s
        for (j = i + 1; substr($0, j, 1) ~ /[ \t\r\n]/; j++) {}
        if (substr($0, j, 1) == ":") { key = s; continue }
      } else if (c ~ /[-0-9]/) {  # a number
        for (value = ""; substr($0, i, 1) ~ /[-+.0-9eE]/; i++) value = value substr($0, i, 1)
        i--
      } else {
        if (c == "{") { depth++; if (depth == 2) inside = key; else { path = type = ""; sha = "-"; size = 0 } key = "" }
        if (c == "}") { if (depth == 1 && type == "file") print size, sha, path; depth-- }
        continue
      }
      if (depth == 1 && key == "path") path = value
      if (depth == 1 && key == "type") type = value
      if (depth == 1 && key == "size") size = value
      if (depth == 2 && inside == "lfs" && (key == "oid" || key == "sha256")) sha = value
    }
  }'
}

# hub_listing REPO REVISION: the same for all files of the repository, page by page.
hub_listing() {
  local url="$HUB/api/models/$1/tree/$2?recursive=1" head page try code
  head=$(mktemp) page=$(mktemp)
  while [ -n "$url" ]; do
    for try in 1 2 3 4 5; do
      code=$(hub_curl -D "$head" -o "$page" -w '%{http_code}' "$url") && break
      stop_if_refused "$code" "$1 at $2"
      [ "$try" = 5 ] && { rm -f "$head" "$page"; return 1; }
      sleep $((try - 1))
    done
    read_listing <"$page"
    url=$(sed -n 's/^[Ll]ink:.*<\([^>]*\)>; *rel="next".*/\1/p' "$head" | tail -n1 | tr -d '\r')
  done
  rm -f "$head" "$page"
}
