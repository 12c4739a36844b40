# pack-chunks unpack: from directories, parts, pipes and foreign archives; complete or not at all, and never outside.
. "$(dirname "$0")/common.sh"
for tool in zstd tar split python3; do command -v $tool >/dev/null || skip "$tool is not installed"; done
mkdir "$WORK/here" && cd "$WORK/here" || exit 1

make_tree src/tree
fingerprint src >expected
# unpacked DIR: holds exactly what was packed, sparse, and nothing else
unpacked() {
  fingerprint "$1" >found
  same expected found
  [ "$(stat -c %b "$1/tree/sparse")" -lt 3000 ] || fail "$1: not sparse"
}
flip() { python3 -c 'import sys
f = open(sys.argv[1], "r+b"); f.seek(int(sys.argv[2])); b = f.read(1); f.seek(-1, 1); f.write(bytes([b[0] ^ 4]))' "$1" "$2"; }

pack-chunks pack src/tree --name set --part-size 1MiB --frame-size 256KiB --out parts -q >/dev/null || fail "pack"
last=$(cd parts && ls set.tar.zst.part.* | tail -n1)

# all the ways in
expect 0 pack-chunks unpack parts -C a && unpacked a
prints '^5 files, '
expect 0 pack-chunks unpack $(ls -r parts/set.tar.zst.part.*) -C b -T 5 && unpacked b
cat parts/set.tar.zst.part.* | pack-chunks unpack - -C c -q >/dev/null || fail "from a pipe"
unpacked c
cat parts/set.tar.zst.part.* | pack-chunks unpack - --manifest parts/manifest.set.json -C d -T 3 -q >/dev/null || fail "pipe and manifest"
unpacked d
mkdir bare && cp parts/set.tar.zst.part.* bare
expect 0 pack-chunks unpack bare -C e && unpacked e
expect 0 pack-chunks unpack parts -C a && unpacked a  # again
prints '5 there already'

# a single frame cut up by split, with a window of 128 MiB
tar -C src --sparse -c tree | zstd -q --long=27 | split -b 1000000 - plain.tar.zst.part.
expect 0 pack-chunks unpack plain.tar.zst.part.* -C f && unpacked f
mkdir plain && mv plain.tar.zst.part.* plain
expect 0 pack-chunks unpack plain -C f && unpacked f

# several archives one after the other, padded with zeros; anything else after them is an error
mkdir several several/a several/b && printf a >several/a/f && printf b >several/b/f
tar -C several -c a | zstd -q >several/x.tar.zst.part.000
tar -C several -c b | zstd -q >several/x.tar.zst.part.001
head -c 2000 /dev/zero >>several/x.tar.zst.part.001
expect 0 pack-chunks unpack several -C several/out
same several/a/f several/out/a/f && same several/b/f several/out/b/f
{ tar -C several -c a; head -c 102400 /dev/zero; tar -C several -c b; head -c 3000 /dev/zero; } | zstd -q >several/y.tar.zst
expect 0 pack-chunks unpack several/y.tar.zst -C several/out2
same several/b/f several/out2/b/f
for junk in 'printf junk' 'head -c 4096 src/tree/noise'; do
  { tar -C several -c a; $junk; } | zstd -q >several/z.tar.zst
  expect 1 pack-chunks unpack several/z.tar.zst -C several/out3
  { tar -C several -c a | zstd -q; $junk; } >several/z.tar.zst
  expect 1 pack-chunks unpack several/z.tar.zst -C several/out3
  [ -z "$(find several/out3 -mindepth 1)" ] || fail "left $(find several/out3)"
done

# suffixes in hexadecimal, in two digits, in letters
for how in -x -d ''; do
  rm -rf cut && mkdir cut
  tar -C src -c tree | zstd -q | split $how -b 150000 - cut/x.tar.zst.part.
  [ "$(ls cut | wc -l)" -gt 20 ] || fail "too few parts"
  rm -rf f1 f2
  expect 0 pack-chunks unpack cut -C f1 && expect 0 pack-chunks unpack $(ls -r cut/*) -C f2
  same src/tree/noise f1/tree/noise && same src/tree/noise f2/tree/noise
  rm "cut/$(ls cut | sed -n 12p)"
  expect 1 pack-chunks unpack cut -C f3
  says 'a part between them is missing'
done
mkdir two && cat parts/set.tar.zst.part.* | split -d -b 1000000 - two/x.tar.zst.part
mkdir under && cat parts/set.tar.zst.part.* | split -b 1000000 - under/x.tar.zst.part_
for set in two under; do
  expect 0 pack-chunks unpack $set -C "of-$set"
  same src/tree/noise "of-$set/tree/noise"
done

# some members, and only the frames they need
expect 0 pack-chunks unpack parts -C some --include numbers --include 'tree/sub*' --exclude '*/same'
[ "$(cd some && find . -type f | sort | tr '\n' ' ')" = "./tree/numbers $(printf './tree/sub/n\303\244me') " ] || fail "wrong members: $(find some)"
mkdir few && cp parts/manifest.set.json few
expect 1 pack-chunks unpack few -C none --include numbers
says 'is missing'
absent none/tree
expect 1 pack-chunks unpack parts -C none --include 'no such'
expect 0 pack-chunks unpack parts -C named --include same
[ "$(cd named && find . -type f)" = ./tree/sub/same ] || fail "a hard link alone: $(find named)"
same named/tree/sub/same src/tree/noise

# what is there already stays, or is replaced by force
printf 'other\n' >a/tree/numbers
expect 1 pack-chunks unpack parts -C a
says 'a/tree/numbers.*-f'
expect 0 pack-chunks unpack parts -C a -f && unpacked a
chmod 600 a/tree/numbers
expect 0 pack-chunks unpack parts -C a && unpacked a
cp a/tree/noise copy && mv copy a/tree/sub/same  # the bytes of a hard link, in a file of its own
expect 0 pack-chunks unpack parts -C a && unpacked a

# damage is found and named and leaves nothing wrong; once fixed, the run continues
size=$(stat -c %s parts/set.tar.zst.part.002)
for at in 0 5 9 100 $((size / 2)) $((size - 1)); do
  cp parts/set.tar.zst.part.002 good
  flip parts/set.tar.zst.part.002 "$at"
  rm -rf g
  expect 3 pack-chunks unpack parts -C g
  says 'set\.tar\.zst\.part\.002'
  for file in $(cd g && find . -type f); do same "g/$file" "src/$file"; done
  [ -z "$(find g -name '.*unpack*')" ] || fail "left behind: $(find g -name '.*')"
  rm -rf bare && mkdir bare && cp parts/set.tar.zst.part.* bare
  expect 1 pack-chunks unpack bare -C h
  [ -z "$(find h -mindepth 1)" ] || fail "a damaged stream left $(find h)"
  cp good parts/set.tar.zst.part.002
  expect 0 pack-chunks unpack parts -C g && unpacked g
done
truncate -s -1 "bare/$last"
expect 1 pack-chunks unpack bare -C h
rm "bare/$last"
cp parts/set.tar.zst.part.002 bare/
expect 1 pack-chunks unpack bare -C h
says 'not a complete tar'
rm bare/set.tar.zst.part.001
expect 1 pack-chunks unpack bare -C h
says 'missing'

# parts go as their content comes
cp -r parts going
expect 0 pack-chunks unpack going -C i --stream-delete && unpacked i
[ "$(LC_ALL=C ls going | tr '\n' ' ')" = "SHA256SUMS.set manifest.set.json " ] || fail "still there: $(ls going)"
expect 0 pack-chunks unpack going -C i && unpacked i
expect 2 pack-chunks unpack parts -C j --stream-delete --include numbers

# --dry-run
expect 0 pack-chunks unpack parts -C j -n
absent j

# archives that lead outside
python3 - <<'PY'
import io, tarfile
def archive(name, *entries):
    with tarfile.open(name, "w", format=tarfile.PAX_FORMAT) as tar:
        for path, kind, target in entries:
            info = tarfile.TarInfo(path)
            info.type = kind
            info.linkname = target
            data = b"owned" if kind == tarfile.REGTYPE else b""
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
F, L, H, D = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE
archive("bad-absolute.tar", ("/tmp/owned", F, ""))
archive("bad-dotdot.tar", ("fine", F, ""), ("a/../../owned", F, ""))
archive("bad-link.tar", ("link", L, "/etc"))
archive("bad-link-up.tar", ("a/link", L, "../../x"))
archive("bad-link-through.tar", ("a/b/l", L, ".."), ("m", L, "a/b/l/../.."))
archive("bad-below-link.tar", ("l", L, "."), ("l/f", F, ""))
archive("bad-below-file.tar", ("f", F, ""), ("f/g", F, ""))
archive("bad-hardlink.tar", ("h", H, "/etc/passwd"))
archive("bad-hardlink-up.tar", ("h", H, "../x"))
archive("bad-hardlink-link.tar", ("l", L, "f"), ("f", F, ""), ("h", H, "l"))
archive("bad-device.tar", ("d", tarfile.CHRTYPE, ""))
archive("bad-block.tar", ("d", tarfile.BLKTYPE, ""))
archive("bad-fifo.tar", ("p", tarfile.FIFOTYPE, ""))
archive("bad-link-later.tar", ("m", L, "later/../x"))
archive("bad-link-loops.tar", *[("l%d" % i, L, "/".join(["l%d" % (i + 1), ".."] * 40)) for i in range(2000)])
archive("good-links.tar", ("a/b/f", F, ""), ("a/l", L, "b/../b/f"), ("m", L, "a/l"), ("h", H, "a/b/f"), ("loop", L, "loop"))
PY
for archive in bad-*.tar; do
  zstd -q "$archive"
  expect 1 pack-chunks unpack "$archive.zst" -C out-of-here
  [ -z "$(find out-of-here -mindepth 1)" ] || fail "$archive left $(find out-of-here)"
done
[ "$(ls bad-*.tar | wc -l)" = 15 ] || fail "the archives were not made"
absent /tmp/owned
zstd -q good-links.tar
expect 0 pack-chunks unpack good-links.tar.zst -C k
[ "$(cat k/m)" = owned ] && [ k/h -ef k/a/b/f ] || fail "links inside do not work"
ln -s "$PWD/elsewhere" l && mkdir -p elsewhere m && ln -s ../elsewhere m/tree
expect 1 pack-chunks unpack parts -C m
says 'symbolic link'
[ -z "$(ls elsewhere)" ] || fail "went through a link"

# files that are not archives, and bombs
printf 'no archive' >junk.zst
expect 1 pack-chunks unpack junk.zst -C n
: >empty.zst
expect 1 pack-chunks unpack empty.zst -C n
head -c 100000 src/tree/numbers | zstd -q >nottar.zst
expect 1 pack-chunks unpack nottar.zst -C n
printf '\x28\xb5\x2f\xfd\xe0\x00\x00\x00\x00\x00\x00\x00\x40' >huge.zst # claims 2^62 bytes
expect 1 pack-chunks unpack huge.zst -C n
head -c 300000000 /dev/zero | zstd -q --long=28 --zstd=wlog=28 >window.zst
expect 1 pack-chunks unpack window.zst -C n --memory 64MiB
says '--memory'
tar -C src -c tree | head -c 3000000 | zstd -q >cut.tar.zst
expect 1 pack-chunks unpack cut.tar.zst -C n
[ -z "$(find n -mindepth 1)" ] || fail "left $(find n)"
expect 2 pack-chunks unpack parts -C n --memory 100KiB
finish
