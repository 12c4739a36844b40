# pack-chunks unpack as root where another user may write: no file of that user is trusted, nothing is written outside.
. "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || skip "only root can act as another user"
command -v setpriv >/dev/null && setpriv --reuid=65534 --clear-groups true 2>/dev/null || skip "setpriv cannot act as another user"
python=/usr/bin/python3
other_can() { setpriv --reuid=65534 --clear-groups $python -c 1 2>/dev/null; }
other_can || skip "another user cannot run $python"
mkdir "$WORK/here" && cd "$WORK/here" && chmod 755 "$WORK" || exit 1
other() { setpriv --reuid=65534 --clear-groups "$@"; }
mkdir -p src/tree/d out victim
for i in $(seq 300); do echo "$i" >"src/tree/d/f$i"; done
pack-chunks pack src/tree --name set --out parts -q >/dev/null || fail "pack"
chmod 777 out

# A staging directory that another user has made is named with its owner, and stays as it is.
echo precious >victim/file
other mkdir out/.set.unpack && other ln -s "$PWD/victim/file" out/.set.unpack/0
expect 1 pack-chunks unpack parts -C out
says '\.set\.unpack.*65534|\.set\.unpack.*nobody'
[ "$(cat victim/file)" = precious ] || fail "the victim was written to"
rm -rf out/.set.unpack

# A directory that is exchanged for a link again and again: every file is inside, or the run ends with an error.
cat >"$WORK/race.py" <<'PY'
import ctypes, os, sys, time
libc, end = ctypes.CDLL(None), time.time() + float(sys.argv[1])
os.symlink(sys.argv[3], "link")
while time.time() < end:
    libc.renameat2(-100, b"tree", -100, b"link", 2)
PY
(cd out && other mkdir -m 777 tree && other $python "$WORK/race.py" "${RACE_SECONDS:-1.5}" x "$WORK/here/victim") &
racer=$!
while kill -0 $racer 2>/dev/null; do
  pack-chunks unpack parts -C out -q -f >/dev/null 2>&1
  [ "$(ls -A victim)" = file ] || { fail "written outside: $(ls -A victim | head -3)"; break; }
done
wait $racer

# Modes: the umask counts, and nothing is for all to write unless that is asked for.
mkdir modes && echo x >modes/f && chmod 6777 modes/f && chmod 1777 modes
pack-chunks pack modes --name modes --out modes-parts -q >/dev/null || fail "pack"
(umask 077 && pack-chunks unpack modes-parts -C m1 -q >/dev/null) || fail "unpack"
(umask 000 && pack-chunks unpack modes-parts -C m2 -q >/dev/null) || fail "unpack"
(umask 077 && pack-chunks unpack modes-parts -C m3 -q --preserve-modes >/dev/null) || fail "unpack"
for mode in "m1/modes 700" "m1/modes/f 700" "m2/modes 775" "m2/modes/f 775" "m3/modes 1777" "m3/modes/f 777"; do
  [ "$(stat -c %a "${mode% *}")" = "${mode#* }" ] || fail "${mode% *} has mode $(stat -c %a "${mode% *}")"
done

# Names of our own records do not come out of an archive.
mkdir -p "own/.set.unpack" && echo '{}' >own/.set.unpack/state.json
tar -C own -c .set.unpack | zstd -q >own.tar.zst
expect 1 pack-chunks unpack own.tar.zst -C o
says "own records"
# An 8 TB hole is compared in no time, and two archives do not make a link that leads out together.
truncate -s 8T hole && tar --sparse -c hole | zstd -q >hole.tar.zst && rm hole
expect 0 timeout 20 pack-chunks unpack hole.tar.zst -C h && expect 0 timeout 20 pack-chunks unpack hole.tar.zst -C h
mkdir -p one/p/q two/p && ln -s .. one/p/q/r && ln -s p/q/r/../.. two/m && rmdir two/p
tar -C one -c p | zstd -q >one.tar.zst && tar -C two -c m | zstd -q >two.tar.zst
expect 0 pack-chunks unpack one.tar.zst -C both
expect 1 pack-chunks unpack two.tar.zst -C both
says 'leads out'
finish
