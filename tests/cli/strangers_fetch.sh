# pack-chunks fetch as root into a directory that another user may write to: files that this user put there before have no
# effect, and none of them is used as ours.
. "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || skip "only root can act as another user"
as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
as true 2>/dev/null || skip "setpriv cannot act as another user here"
. "$SOURCE/tests/tools/hub.sh"
chmod 755 "$WORK" "$WORK/here"
umask 022
mkdir -p src/tree/d victim/deep
echo precious >victim/file; echo precious >victim/deep/file; VICTIM=$PWD/victim
for i in $(seq 40); do head -c 20000 /dev/zero | tr '\0' "$(printf '\\%03o' $((64 + i)))" >"src/tree/d/f$i"; done
state() { (find victim -printf '%p %m %u %s %l\n' | sort; find victim -type f -exec cat {} +); }
state >before
untouched() { state | cmp -s - before || fail "$1: the victim was changed"; }
right() { diff -r src/tree "$1/tree" >/dev/null || fail "$2: not what is on the hub"; }
shared() { rm -rf "$1"; mkdir -p "$1"; chmod 777 "$1"; }
pack-chunks pack src/tree --name set --part-size 100kB --frame-size 16KiB --out $repo -q >/dev/null || fail "pack"
mkdir -p hub/models/me/plain/main hub/models/me/foreign/main
cp -r src/tree hub/models/me/plain/main/
(cd src && tar -cf - tree | zstd -q | split -b 2000 - "../hub/models/me/foreign/main/old.tar.zst.part.")
start_hub

# Each way of fetching, over a staging directory and over final names that were planted. What is refused names the culprit.
for way in "cache set" "foreign old" "plain"; do
  set -- $way
  repository=$1 name=${2:-}
  staging=.planesmith-fetch; [ -z "$name" ] || staging=.$name.unpack
  fetch() { pack-chunks fetch "hf:me/$repository" ${name:+"$name"} --out out "$@"; }
  for kind in link directory; do
    shared out
    if [ $kind = link ]; then as ln -s "$VICTIM" "out/$staging"; else as mkdir -m 777 "out/$staging"; as ln -s "$VICTIM/file" "out/$staging/0"; fi
    expect 1 fetch && says "out/\\$staging: (is a symbolic link|belongs to user .*65534.*mode 0777)"
    untouched "$way: staging, $kind"
  done
  shared out; as ln -s "$VICTIM" out/tree
  expect 1 fetch && says 'out/tree.*symbolic link'; untouched "$way: a directory"
  expect 1 fetch -f; untouched "$way: a directory, -f"
  for target in "$VICTIM/file" "$VICTIM/new" "$VICTIM"; do
    shared out; as mkdir -p -m 777 out/tree/d; as ln -s "$target" out/tree/d/f1
    fetch >/dev/null 2>err; untouched "$way: f1 -> $target"
    expect 0 fetch -f && right out "$way"; untouched "$way: f1 -> $target, -f"
    [ ! -L out/tree/d/f1 ] || fail "$way: a planted link is still there"
  done
done

# A directory of parts: planted parts, lists and manifests.
for planted in set.tar.zst.part.000 manifest.set.json; do
  shared parts; rm -rf out; as ln -s "$VICTIM/file" "parts/$planted"
  pack-chunks fetch hf:me/cache set --out out --parts parts >/dev/null 2>err; untouched "parts/$planted"
  expect 0 pack-chunks fetch hf:me/cache set --out out --parts parts -f && right out "parts/$planted"
  untouched "parts/$planted, -f"
done
shared parts; rm -rf out; as sh -c 'echo "{}" >parts/manifest.set.json'
expect 1 pack-chunks fetch hf:me/cache set --out out --parts parts; says 'manifest\.set\.json: is there already with other contents'

# A racer: the directory of the files, exchanged for a link again and again.
cat >race.py <<'PY'
import ctypes, os, sys, time
libc, end = ctypes.CDLL(None), time.time() + float(sys.argv[1])
os.symlink(sys.argv[2], "link")
while time.time() < end:
    libc.renameat2(-100, b"tree", -100, b"link", 2)
PY
if as /usr/bin/python3 -c 1 2>/dev/null; then
  shared out
  (cd out && as mkdir -m 777 tree && as /usr/bin/python3 "$WORK/here/race.py" "${RACE_SECONDS:-2}" "$VICTIM") & racer=$!
  while kill -0 $racer 2>/dev/null; do
    pack-chunks fetch hf:me/cache set --out out -q -f >/dev/null 2>&1
    pack-chunks fetch hf:me/plain --out out -q -f >/dev/null 2>&1
    [ "$(ls -A victim | tr '\n' ' ')" = "deep file " ] || { fail "written outside: $(ls -A victim | head -3)"; break; }
  done
  wait $racer
  untouched "a race"
else
  echo "SKIPPED: a racer (another user cannot run /usr/bin/python3)"
fi
finish
