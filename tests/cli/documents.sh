#!/usr/bin/env bash
# Man pages and completions that the programs print of themselves.
. "$(dirname "$0")/common.sh"
programs="build-planescache build-fp4-packs verify-ckpt-id pack-chunks repack-experts"
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
[ "$(complete_with build-planescache --fp4 '' | tr '\n' ' ')" = "none nibble quintal " ] || fail "no completion of values"
expect 2 build-planescache --generate fish
says 'fish'

# README: the flags of its commands exist, and so do the files it names.
grep -oE "^    (${programs// /|}) .*" "$SOURCE/README.md" | sed 's/ #.*//' >"$WORK/commands"
[ "$(cut -d' ' -f5 "$WORK/commands" | sort -u | wc -l)" = 5 ] || fail "README has no command for each program"
while read -r program rest; do
  "$program" --generate man | sed 's/\\-/-/g' >"$WORK/page"
  for word in $rest; do
    case $word in --*) grep -qF -- "fB$word\\" "$WORK/page" || fail "README: $program has no $word" ;; esac
  done
done <"$WORK/commands"
for file in $(grep -oE '\b(scripts|tests|manifests|lib)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' "$SOURCE/README.md" | sort -u); do
  [ -e "$SOURCE/$file" ] || fail "README names $file, which is not there"
done
finish
