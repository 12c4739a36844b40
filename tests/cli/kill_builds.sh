# Builders and rekey killed (SIGKILL) after each of their file operations in turn: what the engine would find is right, and
# the same command ends in the same bytes and leaves no stray.
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm  # thousands of syncs
source "$(dirname "$0")/common.sh"
mkdir "$WORK/here" && cd "$WORK/here" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint PIN=golden-ds4-mini
right=right
clean() { rm -rf out; }

# What carries a final name is what it should be: parts, and packs whose sidecars list all layers.
visible() {
  local line stem differing
  differing=$(diff -rq "$right" out 2>&1)
  while read -r line; do
    case $line in
      Files\ *.bin\ differ | Files\ *meta.json\ differ | Files\ *manifest.json\ differ) fail "$line" ;;
      Only\ in\ out*.bin | Only\ in\ out*.json) fail "$line" ;;
      Files\ *.pack\ differ | Only\ in\ right/store:\ *.pack)
        line=${line% differ} stem=out/store/${line##*[ /]} stem=${stem%.pack}
        [ ! -e "$stem.json" ] || [[ $differing == *"$stem.json differ"* ]] || fail "$line, and its sidecar lists all layers" ;;
    esac
  done <<<"$differing"
}
# again COMMAND...: what is visible is right, and the command finishes the work.
again() {
  visible
  "$@" >/dev/null 2>"$WORK/err" || fail "the second run: $(cat "$WORK/err")"
  diff -r "$right" out >"$WORK/err" || fail "after the second run: $(cat "$WORK/err")"
}
# killed WHAT COMMAND...
killed() {
  local what=$1; shift
  "${@//out\//right/}" >/dev/null || fail "$what: $*"
  again_same() { again "${command[@]}"; }
  command=("$@")
  kill_after_each clean again_same "$@"
  echo "$what: $kills kills"
  [ "$kills" -gt 25 ] || fail "$what: too few operations"
  rm -rf right
}

killed "cache and packs in one pass" build-planescache "$CK" -o out/cache --store out/store --tiers base --ckpt-id $PIN -T 1 -q
killed "packs from the checkpoint" build-fp4-packs "$CK" -o out/store --tiers base,fp4q --ckpt-id $PIN -T 1 -q
build-planescache "$CK" -o cache --ckpt-id $PIN -q >/dev/null
killed "packs from a cache" build-fp4-packs --from-planescache cache -o out/store --tiers fp4q -T 1 -q
killed "packs from a cache without a manifest" build-fp4-packs --from-planescache "$GOLDEN/ds4-mini/expected/tp1/planescache" \
  --config "$CK" -o out/store --tiers delta -T 1 -q

# rekey: the old or the new identity is whole at any moment.
both() { build-planescache "$CK" -o "$1/cache" --store "$1/store" --tiers base,delta --ckpt-id "$2" -q >/dev/null; }
both old $PIN; both right new
copied() { rm -rf out; cp -a old out; }
rekey() { verify-ckpt-id rekey --from $PIN --to new --planescache out/cache --store out/store -q; }
whole() { verify-ckpt-id check --planescache out/cache --store out/store --ckpt-id "$1" --tiers base,delta -q >/dev/null 2>&1; }
one_whole() {
  whole $PIN || whole new || fail "neither identity is whole"
  rekey >/dev/null 2>"$WORK/err" || fail "the second run: $(cat "$WORK/err")"
  diff -r right out >"$WORK/err" || fail "after the second run: $(cat "$WORK/err")"
}
kill_after_each copied one_whole verify-ckpt-id rekey --from $PIN --to new --planescache out/cache --store out/store -q
echo "rekey: $kills kills"
[ "$kills" -gt 25 ] || fail "rekey: too few operations"
finish
