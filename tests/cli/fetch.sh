# scripts/fetch.sh and scripts/upload.sh against a hub on loopback that breaks connections, cuts short and lies.
. "$(dirname "$0")/common.sh"
for tool in curl python3 zstd tar; do command -v $tool >/dev/null || skip "$tool is not installed"; done
mkdir "$WORK/here" && cd "$WORK/here" || exit 1
mkdir -p hub src/tree
python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(3).randbytes(1500000))' >src/tree/noise
seq 1 50000 >src/tree/numbers
pack-chunks pack src/tree --name set --part-size 300kB --frame-size 64KiB --out hub -q >/dev/null || fail "pack"
printf 'x' >hub/README.md
printf 'x' >hub/set.tar.zst.part.000.tmp
count=$(ls hub | grep -c 'part\.[0-9]*$')

python3 "$SOURCE/tests/tools/hub_server.py" hub port &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$WORK"' EXIT
for _ in $(seq 100); do [ -e port ] && break; sleep 0.1; done
export HF_ENDPOINT=http://127.0.0.1:$(cat port) no_proxy=127.0.0.1
unset HF_TOKEN
fetch() { "$SOURCE/scripts/fetch.sh" me/cache set "$@"; }
whole() { diff -r src/tree "$1/tree" >/dev/null || fail "$1: not what was packed"; }

expect 0 fetch --out a
whole a
[ "$(ls a/set.parts | wc -l)" = $((count + 1)) ] || fail "parts: $(ls a/set.parts)"
expect 0 fetch --out a  # again: nothing to download
! grep -q checked "$WORK/err" || fail "downloaded again"

echo 'drop 100000' >hub/.trouble
expect 0 fetch --out b -j 2 --delete
whole b
[ "$(ls b/set.parts)" = manifest.set.json ] || fail "--delete left $(ls b/set.parts)"
expect 0 fetch --out c --stream
whole c
absent c/set.parts

echo 'corrupt' >hub/.trouble
expect 1 fetch --out d
says 'not what the hub lists'
absent d/tree
[ -z "$(find d -name '*.part.*')" ] || fail "wrong parts have names: $(find d -name '*.part.*')"
expect 3 fetch --out e --stream
absent e/tree/noise
rm hub/.trouble
expect 0 fetch --out d
whole d

mkdir f f/set.parts
head -c 1000 hub/set.tar.zst.part.001 >f/set.parts/set.tar.zst.part.001.tmp
echo 'noranges' >hub/.trouble
expect 0 fetch --out f --no-unpack --revision v1
same hub/set.tar.zst.part.001 f/set.parts/set.tar.zst.part.001
absent f/tree

# what will not get better is not asked for again
asked() { [ "$(grep -c "$1" hub/.requests)" = "$2" ] || fail "$1 was asked for $(grep -c "$1" hub/.requests) times instead of $2"; }
echo 'token secret' >hub/.trouble
: >hub/.requests
expect 1 fetch --out g
says 'HF_TOKEN'
HF_TOKEN=wrong expect 1 fetch --out g
says 'the token in HF_TOKEN may not read it'
! grep -q wrong "$WORK/err" || fail "the token is shown"
asked /tree/ 2
HF_TOKEN=secret expect 0 fetch --out g
whole g
cp hub/manifest.set.json known
for status in 401 403 404; do
  echo "status $status" >hub/.trouble
  : >hub/.requests
  expect 1 fetch --out refused
  says "manifest.set.json: .* answers $status: "
  asked /resolve/ 1
  rm -rf refused && mkdir -p refused/set.parts && cp known refused/set.parts/manifest.set.json
  expect 1 fetch --out refused --stream
  says "part.000: .* answers $status: "
  rm -rf refused
done
rm hub/.trouble

# with stock tools only
mkdir stock
for tool in bash curl zstd tar awk sed sort stat cat cut tail sha256sum mv rm rmdir mkdir mktemp dirname basename readlink sleep head tr grep; do
  ln -s "$(command -v $tool)" stock/
done
PATH=$PWD/stock expect 0 fetch --out h
whole h
PATH=$PWD/stock expect 0 fetch --out i --stream
whole i

expect 1 "$SOURCE/scripts/fetch.sh" me/cache other --out j
expect 2 "$SOURCE/scripts/fetch.sh" me/cache
mv hub/manifest.set.json .
expect 1 fetch --out j
says 'not complete'

# upload, with an hf that copies into the hub's directory
mkdir bin other
cat >bin/hf <<'HF'
#!/bin/sh
[ "$1 $2" = "upload me/cache" ] && [ "$5" = --revision ] && cp "$3" "$HUB_DIR/$4" && echo "$4" >>"$HUB_DIR/../uploaded"
HF
chmod +x bin/hf
export HUB_DIR=$PWD/hub PATH=$PWD/bin:$PATH
upload() { "$SOURCE/scripts/upload.sh" me/cache set other "$@"; }
mv hub/set.tar.zst.part.0?? hub/SHA256SUMS.set other
rm hub/set.tar.zst.part.000.tmp
: >other/set.tar.zst.part.999.tmp
expect 1 upload  # no manifest
(sleep 1; mv manifest.set.json other) &
expect 0 upload --watch
diff <(ls other | grep -v tmp) <(ls hub | grep set) >/dev/null || fail "the hub has $(ls hub)"
[ "$(tail -n1 uploaded)" = manifest.set.json ] || fail "the manifest was not last"
: >uploaded
expect 0 upload
[ "$(tr '\n' ' ' <uploaded)" = "SHA256SUMS.set manifest.set.json " ] || fail "uploaded again: $(cat uploaded)"
printf '#!/bin/sh\ncp "$3" "$HUB_DIR/$4"; printf x >>"$HUB_DIR/$4"\n' >bin/hf
rm hub/set.tar.zst.part.001
expect 3 upload
says 'set\.tar\.zst\.part\.001'
finish
