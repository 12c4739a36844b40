# quantize, translate and finish on a disk that is really full, wherever in the work it fills up: a sentence and exit 1, no wrong
# file under a final name, and the same bytes once there is room. The disk is a small tmpfs in a mount namespace of its own.
. "$SOURCE/tests/cli/common.sh"
python_with numpy
if [ -z "${OWN_MOUNTS:-}" ]; then
  for namespace in "unshare -m" "unshare -rm"; do
    if $namespace mount -t tmpfs none "$WORK" 2>/dev/null; then
      rm -rf "$WORK"
      exec env OWN_MOUNTS=1 $namespace bash "$0"
    fi
  done
  skip "mounting a tmpfs is not allowed, not even in a namespace of its own"
fi
mkdir "$WORK/here" && cd "$WORK/here" || exit 1
trap 'cd /; umount "$WORK/here/disk" 2>/dev/null; rm -rf "$WORK"' EXIT
export PYTHONPATH=$SOURCE/tests/tools PYTHONDONTWRITEBYTECODE=1

# filled STEPS TARGET COMMAND...: the command, which writes disk/TARGET, with ever more room.
filled() {
  local steps=$1 target=$2 room all stopped=0 flags; shift 2
  rm -rf disk right; mkdir disk
  expect 0 "$@" || return
  mv "disk/$target" right
  all=$(($(du -sk right | cut -f1) + 64))
  for ((room = 0; room < all; room += all / steps + 1)); do
    mount -t tmpfs -o size=$((all + 64))k none disk || { fail "no tmpfs"; return; }
    flags="-T $((1 + room % 3))"
    fallocate -l $((all + 64 - room))k disk/others
    [ "$room" = 0 ] || [ $((2 * room)) -gt $all ] || { expect 1 "$@" $flags && says "not enough space: .*--no-space-check"; }
    if "$@" $flags --no-space-check >"$WORK/out" 2>"$WORK/err"; then
      diff -r -x .repack-experts right "disk/$target" >/dev/null || fail "$2 with ${room}k: other bytes"
    else
      [ $? = 1 ] || fail "$2 with ${room}k of room: another exit than 1"
      stopped=$((stopped + 1))
      says "disk/$target.*: No space left on device"
      [ "$(wc -l <"$WORK/err")" -lt 20 ] || fail "$2 says too much: $(cat "$WORK/err")"
      for file in disk/"$target"/*.safetensors disk/"$target"/*.json; do
        [ ! -f "$file" ] || cmp -s "$file" "right/${file#disk/"$target"/}" || fail "$2 with ${room}k: $file has its final name and is not whole"
      done
      [ ! -e "disk/$target/model.safetensors.index.json" ] || diff -rq -x .repack-experts right "disk/$target" >/dev/null ||
        fail "$2 with ${room}k: the index is there before the rest"
    fi
    rm disk/others
    expect 0 "$@" $flags
    diff -r -x .repack-experts right "disk/$target" >"$WORK/err" || fail "$2, once there was room: $(cat "$WORK/err")"
    umount disk
  done
  echo "$2: stopped by a full disk $stopped times"
  [ "$stopped" -gt 5 ] || fail "$2: too seldom"
}
judge() { python "$SOURCE/tests/tools/rewrite_judge.py" "$@"; }

expect 0 judge make floats s fused=yes drafter=layer
for to in nvfp4 mxfp4; do filled 40 t repack-experts quantize s disk/t --to $to --link copy; done
rm -rf s; expect 0 judge make floats s fused=yes drafter=layer kinds=plain
expect 0 repack-experts quantize -q s q --to nvfp4
filled 120 f repack-experts finish q --from s disk/f --link copy
rm -rf s q
expect 0 judge make ct-mixed s
filled 40 t repack-experts translate s disk/t --link copy
finish
