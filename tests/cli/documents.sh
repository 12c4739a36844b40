#!/usr/bin/env bash
# Man pages and completions that the programs print of themselves; what README names; what sources cite of docs/.
. "$(dirname "$0")/common.sh"
programs="build-planescache build-fp4-packs verify-ckpt-id pack-chunks repack-experts size-tiers"
roff=$(command -v groff || true)
[ -n "$roff" ] || echo "SKIPPED: the check of the man pages' markup, groff is not installed"

# complete PROGRAM WORD...: what bash offers for the last word.
complete_with() {
  bash -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); "_${1//-/_}"; printf "%s\n" "${COMPREPLY[@]}"' _ "$completion" "$@"
}

for program in $programs; do
  [ -x "$BIN/$program" ] || { fail "$program is not built"; continue; }
  expect 0 "$program" --generate man
  prints "^\.SH NAME$"; prints '^\.SH OPTIONS$'; prints '^\.SH EXIT STATUS$'; prints 'memory'
  if [ -n "$roff" ]; then
    cp "$WORK/out" "$WORK/page"
    expect 0 groff -man -ww -z "$WORK/page"
    [ ! -s "$WORK/err" ] || { fail "$program: groff complains"; head -3 "$WORK/err"; }
  fi
  # Every long flag that --help shows is in the man page and is completed.
  completion=$WORK/completion
  expect 0 "$program" --generate bash
  cp "$WORK/out" "$completion"
  bash -n "$completion" || fail "$program: completion is no bash"
  expect 0 "$program" --generate zsh
  prints "^#compdef $program$"
  if command -v zsh >/dev/null; then cp "$WORK/out" "$WORK/zsh"; expect 0 zsh -n "$WORK/zsh"; fi
  "$program" --help | grep -oE -- '^ +(-[a-zA-Z],)?--[a-z0-9-]+' | grep -oE -- '--[a-z0-9-]+' | sort -u >"$WORK/flags"
  [ -s "$WORK/flags" ] || fail "$program: --help shows no flag"
  "$program" --generate man | sed 's/\\-/-/g' >"$WORK/page"
  complete_with "$program" -- | sort -u >"$WORK/offered"
  while read -r flag; do
    grep -qF -- "$flag" "$WORK/page" || fail "$program: the man page lacks $flag"
    grep -qxF -- "$flag" "$WORK/offered" || fail "$program: the completion lacks $flag"
  done <"$WORK/flags"
done

verify-ckpt-id --generate bash >"$completion"
complete_with verify-ckpt-id ch | grep -qx check || fail "no completion of subcommands"
complete_with verify-ckpt-id check --fp | grep -qx -- --fp4 || fail "no completion of a subcommand's flags"
build-planescache --generate bash >"$completion"
offers() {  # offers WORDS PROGRAM ARGUMENT...: exactly these for the last argument
  local want=$1 got; shift
  [ -e "$WORK/$1.bash" ] || "$1" --generate bash >"$WORK/$1.bash"
  completion=$WORK/$1.bash
  got=$(complete_with "$@" | tr '\n' ' ')
  [ "$got" = "$want " ] || fail "completion of '$*' offers '$got' instead of '$want'"
}
MODES="resident resident-split resident-2bit host host-split host-2bit"
offers "none nibble quintal" build-planescache --fp4 ''
offers "none nibble quintal" build-planescache --fp4 = ''
offers "none nibble" build-planescache --fp4 = n; offers "nibble" build-planescache --fp4 ni
offers "base delta fp4 fp4q deltaq" build-planescache --tiers ''
offers "base,delta base,deltaq" build-fp4-packs --tiers base,d
offers "$MODES" build-planescache --for ''; offers "$MODES" verify-ckpt-id check --for ''
offers "base delta fp4 fp4q deltaq" verify-ckpt-id check --tiers ''
offers "none nibble quintal" verify-ckpt-id check --fp4 ''; offers "auto sign alt" verify-ckpt-id check --zero-mode ''
offers "nvfp4 mxfp4" repack-experts quantize --to ''
offers "scalar" repack-experts analyze --isa s
offers "tensor tensor-sym expert row block32" repack-experts build --granularity ''
offers "sym reflink copy" repack-experts build --link ''; offers "auto always never" build-fp4-packs --reflink ''
offers "xxh3 sha256 both" verify-ckpt-id verify --hash ''; offers "auto plain none" size-tiers --progress ''
offers "man bash zsh" size-tiers --generate ''
# Names of profiles and policies, beside which there are files and options behind colons; of all that have such an option.
export PLANESMITH_PROFILES=$WORK/profiles
mkdir "$PLANESMITH_PROFILES" && cp "$SOURCE"/manifests/profiles/*.json "$PLANESMITH_PROFILES"
touch "$PLANESMITH_PROFILES/"{'$(touch planted)',"o'clock",'a b'}.json
PROFILES=$(cd "$SOURCE/manifests/profiles" && ls | sed 's/\.json$//' | LC_ALL=C sort | tr '\n' ' '); PROFILES=${PROFILES% }
offers "$PROFILES" size-tiers --profile ''; offers "$PROFILES" verify-ckpt-id audit --profile ''
offers "$PROFILES" build-fp4-packs --profile ''; offers "$PROFILES" verify-ckpt-id list --profile ''; offers "$PROFILES" verify-ckpt-id check --profile = ''
offers GLM-5.2-NVFP4 verify-ckpt-id check --profile GL; offers '' size-tiers --profile ./some
offers "engine need belady sorted/lru sorted/lfu sorted/aged-lfu freq/lru freq/lfu freq/aged-lfu round-robin/lru round-robin/lfu round-robin/aged-lfu" size-tiers --policy ''
offers "engine,need" size-tiers --policy engine,ne; offers "sorted/lru sorted/lfu sorted/aged-lfu" size-tiers --policy so
offers all build-planescache --rank ''; offers all verify-ckpt-id check --rank ''
offers "shell docker" verify-ckpt-id check --print-env = ''; offers '' verify-ckpt-id check --print-env ''
size-tiers --generate zsh | grep -qF "(engine need belady" || fail "zsh is not told of policies"
expect 2 size-tiers nowhere.npy --policy engine:promote=4 --progress plian && says 'did you mean plain\?'
expect 2 size-tiers nowhere.npy --profile ./GLM-5.2-NVFP5.json && ! grep 'did you mean' "$WORK/err" || fail "a file is not a slip of a name"
expect 2 build-planescache --generate fish
says 'fish'

# README: the flags of its commands exist, and so do the files it names.
grep -oE "^    (${programs// /|}) .*" "$SOURCE/README.md" | sed 's/ #.*//' >"$WORK/commands"
[ "$(cut -d" " -f5 "$WORK/commands" | sort -u | wc -l)" = 6 ] || fail "README has no command for each program"
while read -r program rest; do
  "$program" --generate man | sed 's/\\-/-/g' >"$WORK/page"
  for word in $rest; do
    case $word in --*) grep -qF -- "fB$word\\" "$WORK/page" || fail "README: $program has no $word" ;; esac
  done
done <"$WORK/commands"
for file in $(grep -oE '\b(scripts|tests|manifests|lib)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' "$SOURCE/README.md" | sort -u); do
  [ -e "$SOURCE/$file" ] || fail "README names $file, which is not there"
done

# What sources and scripts cite is in the documents, and the check finds what is not.
references=$SOURCE/tests/tools/check_references.py
expect 0 python3 "$references" "$SOURCE" || cat "$WORK/out"
mkdir -p "$WORK/tree/lib" "$WORK/tree/docs"
cp "$SOURCE/docs/FORMAT.md" "$WORK/tree/docs/"
expect 2 python3 "$references" "$WORK/tree"
for cited in 'FORMAT.md sections 1 to 3' 'FORMAT.md, "Source fingerprint"'; do
  printf '// See %s.\n' "$cited" >"$WORK/tree/lib/a.h"
  expect 0 python3 "$references" "$WORK/tree"
done
for cited in 'FORMAT.md section 99' 'FORMAT.md sections 1, 2 and 99' 'FORMAT.md sections 9 to 99' 'FORMAT.md, "Nothing"' NONE.md \
    $'FORMAT.md\n// section 99'; do
  printf '// See %s.\n' "$cited" >"$WORK/tree/lib/a.h"
  expect 1 python3 "$references" "$WORK/tree"
  prints 'a\.h: '
done
finish
