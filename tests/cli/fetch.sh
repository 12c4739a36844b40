# scripts/fetch.sh with stock tools only, against a hub on loopback that breaks connections, cuts short and lies.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/tools/hub.sh"
export TMPDIR=$WORK/tmp && mkdir "$TMPDIR"
mkdir -p src/tree "$repo/sub dir"
python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(3).randbytes(1500000))' >src/tree/noise
seq 1 50000 >src/tree/numbers
pack-chunks pack src/tree --name set --part-size 300kB --frame-size 64KiB --out $repo -q >/dev/null || fail "pack"
(cd src && tar -cf - tree | zstd -q | split -b 300000 - "../$repo/sub dir/a#b%20?.tar.zst.part.")
printf x >$repo/set.tar.zst.part.000.tmp
count=$(ls $repo | grep -c 'set.*part\.[0-9]*$')
HUB_PAGE=10 start_hub

# The tools of a machine without Planesmith.
mkdir stock
for tool in bash curl zstd tar awk sed sort stat cat cut tail sha256sum mv rm rmdir mkdir mktemp dirname basename readlink sleep head tr grep find id chmod tee mkfifo; do
  ln -s "$(command -v $tool)" stock/
done
ln -s "$(command -v jq || command -v python3)" stock/
stock() { PATH=$PWD/stock "$SOURCE/scripts/fetch.sh" "$@"; }
root=''
[ "$(id -u)" != 0 ] || root=--as-root
whole() { diff -r src/tree "$1/tree" >/dev/null || fail "$1: not what was packed"; }

# with pack-chunks it is pack-chunks fetch
expect 0 "$SOURCE/scripts/fetch.sh" me/cache set --out p -j 3
whole p
prints 'in +p/tree'
expect 0 "$SOURCE/scripts/fetch.sh" me/cache 'sub dir/a#b%20?' --out p2 --delete
whole p2
: >hub/.requests
expect 0 "$SOURCE/scripts/fetch.sh" me/cache 'sub dir/a#b%20?' --out p2 --delete
asked 'part\.' 0

if [ -n "$root" ]; then
  expect 1 stock me/cache set --out a
  says 'as root this needs pack-chunks'
  absent a/tree
fi
expect 0 stock me/cache set --out a $root
whole a
says 'in +a/tree'
[ "$(ls -A a | tr '\n' ' ')" = '.set.fetched tree ' ] || fail "a holds $(ls -A a | tr '\n' ' ')"
: >hub/.requests
expect 0 stock me/cache set --out a --delete $root
says 'unpacked already'
asked 'part\.' 0
touch a/tree/numbers
expect 1 stock me/cache set --out a $root
says 'is there already'
expect 0 stock me/cache 'a#b%20?' --out s --stream $root
whole s
absent s/.a*parts

# parts are kept when asked for, and trusted by content only
expect 0 stock me/cache set --out b --parts kept $root
whole b
[ "$(ls kept | wc -l)" = "$count" ] || fail "parts: $(ls kept)"
: >hub/.requests
expect 0 stock me/cache set --no-unpack --parts kept
asked '/resolve/' 0
cp $repo/set.tar.zst.part.001 good
head -c "$(stat -c %s good)" src/tree/noise >$repo/set.tar.zst.part.001  # uploaded again: same name, same size
expect 0 stock me/cache set --no-unpack --parts kept
same kept/set.tar.zst.part.001 $repo/set.tar.zst.part.001
cp good $repo/set.tar.zst.part.001
printf x | dd of=kept/set.tar.zst.part.002 bs=1 seek=9 conv=notrunc status=none
expect 0 stock me/cache set --no-unpack --parts kept
same kept/set.tar.zst.part.002 $repo/set.tar.zst.part.002

for case in 'drop 100000' 'noranges' 'status 503 1 *3' 'status 429 1 *3' 'corrupt-name part.001 *1' 'link-host https://elsewhere.invalid'; do
  trouble "$case"
  rm -rf c
  expect 0 stock me/cache set --out c $root || echo "    with $case"
  whole c
done
trouble 'corrupt-name part.001'
rm -rf c
expect 3 stock me/cache set --out c $root
says 'part\.001: the content is not what the hub lists'
absent c/tree
expect 3 stock me/cache set --out c --stream $root
absent c/tree

# permanent errors are not retried
trouble 'token secret'
expect 1 stock me/cache set --out g $root
says HF_TOKEN
HF_TOKEN=wrong expect 1 stock me/cache set --out g $root
says 'the token in HF_TOKEN may not read it'
not_shown wrong
asked /tree/ 2
HF_TOKEN=secret expect 0 stock me/cache set --out g $root
whole g
! grep -q 'localhost.* token$' hub/.requests || fail "the token was sent to another host"
for status in 401 403 404; do
  trouble "status $status"
  expect 1 stock me/cache set --out refused -j 1 $root
  says "part\.00[0-9]: .* answers $status: "
done
for bad in 'link-host file:///etc' 'link-host gopher://127.0.0.1:1' 'link-host -Kfile'; do
  trouble "$bad"
  expect 1 stock me/cache set --out refused $root
done
trouble
expect 1 stock me/cache other --out j $root
says "no set 'other'; its sets: set sub dir/a#b%20\?"
expect 2 stock me/cache
expect 1 env HF_ENDPOINT=file:///etc "$SOURCE/scripts/fetch.sh" me/cache set --no-unpack

# parts that are missing on the hub: in the middle, before anything is fetched; at the end, when the archive is read
mv $repo/set.tar.zst.part.001 aside
: >hub/.requests
expect 1 stock me/cache set --out gap $root
says 'set\.tar\.zst\.part\.002: the part before it is missing on the hub'
asked /resolve/ 0
mv aside $repo/set.tar.zst.part.001
last=$(ls $repo/set.tar.zst.part.* | tail -1); mv "$last" aside
expect 1 stock me/cache set --out gap $root
says 'the archive is not whole, a part is missing or damaged: tar: .'
absent gap/tree; mv aside "$last"

# a hostile archive, and directories that others have prepared
hostile() {  # NAME: of the archive that is made from standard input
  rm -f $repo/bad.tar.zst.part.*
  zstd -q >$repo/bad.tar.zst.part.aa
  expect 1 stock me/cache bad --out bad $root
  says "$1"
  [ -z "$(find bad -name victim -o -name evil 2>/dev/null)" ] || fail "unpacked: $1"
  rm -rf bad
}
python3 - <<'PY'
import io, tarfile
def archive(name, *members):
    with tarfile.open(name, "w") as tar:
        for path, kind, target in members:
            info = tarfile.TarInfo(path)
            info.type, info.linkname, info.mode = kind, target, 0o4755
            tar.addfile(info)
archive("absolute.tar", ("/tmp/victim", tarfile.REGTYPE, ""))
archive("dots.tar", ("a/../../victim", tarfile.REGTYPE, ""))
archive("link.tar", ("evil", tarfile.SYMTYPE, "/etc"))
archive("out.tar", ("a/evil", tarfile.SYMTYPE, "../../x"))
archive("through.tar", ("d", tarfile.SYMTYPE, "e"), ("d/victim", tarfile.REGTYPE, ""))
archive("device.tar", ("evil", tarfile.CHRTYPE, ""))
archive("hard.tar", ("evil", tarfile.LNKTYPE, "/etc/passwd"))
archive("setuid.tar", ("tool", tarfile.REGTYPE, ""))
PY
hostile 'does not stay' <absolute.tar
hostile 'does not stay' <dots.tar
hostile 'leads out' <link.tar
hostile 'leads out' <out.tar
hostile 'not a directory' <through.tar
hostile 'not a file, directory or link' <device.tar
hostile 'not an earlier file of the archive' <hard.tar
zstd -qf setuid.tar -o $repo/bad.tar.zst.part.aa
expect 0 stock me/cache bad --out bad $root
[ "$(stat -c %a bad/tool)" = 755 ] || fail "a set-user-id file: $(stat -c %a bad/tool)"
mkdir -p planted "$WORK/elsewhere"
ln -s "$WORK/elsewhere" planted/.set.parts
expect 1 stock me/cache set --out planted $root
says 'in the way'
[ -z "$(ls "$WORK/elsewhere")" ] || fail "written through a link"
rm planted/.set.parts; mkdir -m 0777 planted/.set.parts; chmod 0777 planted/.set.parts
expect 1 stock me/cache set --out planted $root
says 'others may write'
[ -z "$(ls -A "$TMPDIR")" ] || fail "temporary files are left: $(ls -A "$TMPDIR" | tr '\n' ' ')"
finish
