#!/usr/bin/env bash
# docs/ARCHITECTURE.md: the functions, files and layers that it names are there.
. "$(dirname "$0")/common.sh"
page=$SOURCE/docs/ARCHITECTURE.md

grep -oE '`[^`]+`' "$page" | tr -d '`' | sort -u >"$WORK/names"
known=0
while read -r name; do
  case $name in
    *' '* | -* | *.sh | *-*) continue ;;  # commands, options, programs
    */* | *.cc | *.h | *.txt)
      for place in "$SOURCE" "$SOURCE/lib" "$SOURCE"/lib/*; do [ -e "$place/$name" ] && continue 2; done
      fail "ARCHITECTURE.md names the file $name, which is not there" ;;
    *[!A-Za-z0-9_:]*) continue ;;
    *)
      known=$((known + 1))
      for word in ${name//::/ }; do
        grep -rqw -- "$word" "$SOURCE/lib" "$SOURCE/apps" || fail "ARCHITECTURE.md names $name, but nothing is called $word"
      done ;;
  esac
done <"$WORK/names"
[ "$known" -gt 30 ] || fail "only $known names were found in ARCHITECTURE.md"

sed -n '/^set(PLANESMITH_LAYERS/,/^)/p' "$SOURCE/lib/CMakeLists.txt" | grep -oE '^ +[a-z]+' | tr -d ' ' >"$WORK/layers"
[ "$(wc -l <"$WORK/layers")" -gt 10 ] || fail "no layers in lib/CMakeLists.txt"
sed -n '/^## The layers/,/^## Threads/s/^| \([a-z, ]*\) |.*/\1/p' "$page" | tr -s ', ' '\n\n' | grep -v '^layer$' >"$WORK/told"
diff "$WORK/layers" "$WORK/told" || fail "ARCHITECTURE.md lists other layers than lib/CMakeLists.txt"
finish
