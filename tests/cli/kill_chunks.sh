# pack-chunks killed (SIGKILL) after each of its file operations in turn: nothing wrong under a final name, and a second run
# gives the same bytes and leaves no stray.
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm  # thousands of syncs
. "$(dirname "$0")/common.sh"
mkdir "$WORK/here" && cd "$WORK/here" || exit 1
mkdir -p src/tree/sub
seq 1 30000 >src/tree/numbers
seq 5 9 >src/tree/sub/small
printf 'end' >src/tree/sparse && truncate -s 300000 src/tree/sparse && printf 'end' >>src/tree/sparse
ln -s ../numbers src/tree/sub/link
ln src/tree/numbers src/tree/sub/same
chmod 640 src/tree/numbers

pack() { pack-chunks pack src/tree --name set --frame-size 32KiB --part-size 34000 --out "$1" -T 2 -q; }
pack parts >/dev/null || fail "pack"
[ "$(ls parts | wc -l)" -gt 3 ] || fail "too few parts: $(ls parts)"
clean() { rm -rf out; }
packed() {
  local file
  for file in $(cd out 2>/dev/null && find . -name .set.pack -prune -o \( -name '*.part.???' -o -name '*.json' \) -print); do same "out/$file" "parts/$file"; done
  [ ! -e out/manifest.set.json ] || [ "$(ls out/*.part.??? | wc -l)" = "$(ls parts/*.part.??? | wc -l)" ] || fail "a manifest without all parts"
  pack out >/dev/null 2>"$WORK/err" || fail "the second run: $(cat "$WORK/err")"
  diff -r parts out >"$WORK/err" || fail "after the second run: $(cat "$WORK/err")"
}
kill_after_each clean packed pack-chunks pack src/tree --name set --frame-size 32KiB --part-size 34000 --out out -T 2 -q
echo "pack: $kills kills"
[ "$kills" -gt 30 ] || fail "too few operations"
other() { rm -rf out && cp -r parts out && printf x >>out/set.tar.zst.part.001; }
replaced() {
  local file
  [ ! -e out/manifest.set.json ] || cmp -s out/set.tar.zst.part.001 parts/set.tar.zst.part.001 ||
    cmp -s out/set.tar.zst.part.001 <(cat parts/set.tar.zst.part.001; printf x) || fail "a manifest beside half a part"
  pack-chunks pack src/tree --name set --frame-size 32KiB --part-size 34000 --out out -T 2 -q -f >/dev/null || fail "the second run"
  diff -r parts out >"$WORK/err" || fail "after the second run: $(cat "$WORK/err")"
}
kill_after_each other replaced pack-chunks pack src/tree --name set --frame-size 32KiB --part-size 34000 --out out -T 2 -q -f
echo "pack --force: $kills kills"

names() { find "$1" -mindepth 1 -printf '%P %m %y %l %n\n' | sort; }
names src >expected
# unpacked COMMAND...: what is there is right, and the command finishes the work
unpacked() {
  local file
  for file in $(cd out 2>/dev/null && find . -name .\*.unpack -prune -o -type f ! -name '*.lock' -print); do same "out/$file" "src/$file"; done
  "$@" >/dev/null 2>"$WORK/err" || fail "the second run: $(cat "$WORK/err")"
  names out >found
  same expected found
  diff -r src out >"$WORK/err" || fail "after the second run: $(cat "$WORK/err")"
}
unpack() { unpacked pack-chunks unpack parts -C out -q; }
kill_after_each clean unpack pack-chunks unpack parts -C out -T 2 -q
echo "unpack: $kills kills"
[ "$kills" -gt 20 ] || fail "too few operations"
rm -rf bare && mkdir bare && cp parts/*.part.??? bare
unpack_bare() { unpacked pack-chunks unpack bare -C out -q; }
kill_after_each clean unpack_bare pack-chunks unpack bare -C out -T 2 -q
echo "unpack without a manifest: $kills kills"
going() { rm -rf out going && cp -r parts going; }
unpack_going() {
  unpacked pack-chunks unpack going -C out -q --stream-delete
  [ "$(LC_ALL=C ls going | tr '\n' ' ')" = "SHA256SUMS.set manifest.set.json " ] || fail "still there: $(ls going)"
}
kill_after_each going unpack_going pack-chunks unpack going -C out -T 2 -q --stream-delete
echo "unpack --stream-delete: $kills kills"
finish
