# pack-chunks fetch against a hub on loopback that breaks connections, cuts short, limits and lies.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/tools/hub.sh"
mkdir -p src/tree
python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(3).randbytes(1500000))' >src/tree/noise
seq 1 50000 >src/tree/numbers
ln -s numbers src/tree/link
pack-chunks pack src/tree --name set --part-size 300kB --frame-size 64KiB --out $repo -q >/dev/null || fail "pack"
mkdir -p "$repo/sub dir"
(cd src && tar -cf - tree | zstd -q | split -b 300000 - "../$repo/sub dir/a#b%20?.tar.zst.part.")
start_hub
fetch() { pack-chunks fetch "$@"; }
same_tree() { [ "$(fingerprint src/tree)" = "$(fingerprint "$1/tree")" ] || fail "$1: not what was packed"; }
only_tree() { [ "$(ls -A "$1")" = tree ] || fail "$1 holds $(ls -A "$1" | tr '\n' ' ')"; }

# a set with our manifest: straight to its place, and not fetched twice
expect 0 fetch hf:me/cache set --out a
same_tree a; only_tree a
prints 'in +a/tree'
: >hub/.requests
expect 0 fetch hf:me/cache set --out a
asked 'part\.' 0
prints '0 bytes fetched, 2 there already'
# a dry run reports what is there already, and changes nothing
expect 0 fetch hf:me/cache set --out a -n
prints '^to fetch: 0 bytes in .* parts of set; 2 files, .*, 2 there already$'
cp -r a some && rm some/tree/numbers
expect 0 fetch hf:me/cache set --out some -n
prints '^to fetch: [1-9].*, 1 there already$'
only_tree some; absent some/tree/numbers
expect 0 fetch hf:me/cache set --out n -n --json
absent n
python3 -c 'import json; r = json.load(open("'"$WORK/out"'")); assert r["kind"] == "frames" and r["files"] == 2 and r["fetched_bytes"] > 1500000, r' || fail "--json"
expect 0 fetch hf:me/cache set --out inc --include '*numbers'
[ "$(ls inc/tree)" = numbers ] || fail "--include: $(ls inc/tree)"
expect 0 fetch hf:me/cache set --out withparts --parts kept
same_tree withparts
(cd kept && sha256sum -c --quiet "../$repo/SHA256SUMS.set") || fail "--parts"
[ -e kept/manifest.set.json ] || fail "no manifest beside the parts"
: >hub/.requests
expect 0 fetch hf:me/cache set --out withparts --parts kept
asked 'part\.' 0
printf x | dd of=kept/set.tar.zst.part.001 bs=1 seek=7 conv=notrunc status=none  # same size, other content
expect 1 fetch hf:me/cache set --out withparts2 --parts kept
says 'other contents'
expect 0 fetch hf:me/cache set --out withparts2 --parts kept -f
same_tree withparts2
asked 'cdn.*part\.' 1

# a foreign set, in a sub-directory, with a name that has to be encoded; by its own name alone too
for name in 'sub dir/a#b%20?' 'a#b%20?'; do
  rm -rf f
  expect 0 fetch hf:me/cache "$name" --out f
  same_tree f; only_tree f
done
: >hub/.requests
expect 0 fetch hf:me/cache 'a#b%20?' --out f
asked 'part\.' 0
expect 2 fetch hf:me/cache --out x
says 'several sets.*set'
expect 1 fetch hf:me/cache other --out x
says "no set, directory or file 'other'"
absent x
rm "$repo/sub dir/a#b%20?.tar.zst.part.ac"
expect 1 fetch hf:me/cache 'a#b%20?' --out x
says 'missing'

# without a manifest, what is wrong is named by its part and the offset there, as when local parts are unpacked
mkdir $repo/bare && cp $repo/set.tar.zst.part.* $repo/bare
at=$(python3 -c 'import json; print(max(f["offset"] for f in json.load(open("'$repo'/manifest.set.json"))["chunks"]["frames"] if f["part"] == 1))')
for place in 0 100; do  # in the frame's magic number, in its content
  cp $repo/set.tar.zst.part.001 $repo/bare
  printf x | dd of=$repo/bare/set.tar.zst.part.001 bs=1 seek=$((at + place)) conv=notrunc status=none
  expect 1 fetch hf:me/cache bare/set --out bare
  says "^pack-chunks: bare/set\.tar\.zst\.part\.001: at byte $at: (no zstd frame begins here|the frame that begins here is damaged)"
  absent bare/tree
  expect 1 pack-chunks unpack $repo/bare -C bare
  says "^pack-chunks: $repo/bare/set\.tar\.zst\.part\.001: at byte $at: (no zstd frame begins here|the frame that begins here is damaged)"
done
rm -r $repo/bare

# plain files
mkdir -p hub/datasets/me/plain/refs%2Fpr%2F1/d
cp src/tree/noise hub/datasets/me/plain/refs%2Fpr%2F1/d/noise
echo '{}' >hub/datasets/me/plain/refs%2Fpr%2F1/config.json
: >hub/datasets/me/plain/refs%2Fpr%2F1/d/empty
trouble 'drop 200000 *2'
expect 0 fetch hf:datasets/me/plain@refs/pr/1 --out t -j 3
diff -r hub/datasets/me/plain/refs%2Fpr%2F1 t || fail "plain files"
says 'again in'
trouble
expect 0 fetch hf:datasets/me/plain@refs/pr/1 --out t
asked '/resolve/.*noise' 0
cp src/tree/numbers hub/datasets/me/plain/refs%2Fpr%2F1/d/noise
truncate -s 1500000 hub/datasets/me/plain/refs%2Fpr%2F1/d/noise  # uploaded again: same name, same size
expect 1 fetch hf:datasets/me/plain@refs/pr/1 --out t
says 'other contents'
expect 0 fetch hf:datasets/me/plain@refs/pr/1 d --out t -f
cmp -s t/d/noise hub/datasets/me/plain/refs%2Fpr%2F1/d/noise || fail "the old content is kept"
trouble 'corrupt-name noise *1'
expect 0 fetch hf:datasets/me/plain@refs/pr/1 --out t2
says 'fetching it again'
trouble 'corrupt-name noise'
expect 3 fetch hf:datasets/me/plain@refs/pr/1 --out t3
absent t3/d/noise
ln -s "$WORK" t4
expect 0 fetch hf:datasets/me/plain@refs/pr/1 d --out t5 --include '*empty'
ln -s "$WORK/elsewhere" t5/config.json
mkdir "$WORK/elsewhere"
trouble
expect 1 fetch hf:datasets/me/plain@refs/pr/1 --out t5
[ -z "$(ls "$WORK/elsewhere")" ] || fail "written through a link"

# a web server
(cd $repo && verify-ckpt-id manifest . --out manifest.json -q >/dev/null)
expect 0 fetch "$HF_ENDPOINT/files/models/me/cache/main" set --out w
same_tree w
expect 0 fetch "$HF_ENDPOINT/files/models/me/cache/main/" --out w2
cmp -s w2/set.tar.zst.part.000 $repo/set.tar.zst.part.000 || fail "files of a web server"
expect 1 fetch "$HF_ENDPOINT/files/models/me/cache/main" other --out x
says 'neither manifest.other.json nor'
rm $repo/manifest.json

# a --memory too small for a frame that is unpacked and one that is fetched is refused with what suffices
expect 2 fetch hf:me/cache set --out m --memory 100kB
least=$(grep -o 'the smallest that works is [0-9]*' "$WORK/err" | grep -o '[0-9]*$')
expect 2 fetch hf:me/cache set --out m --memory $((least - 1))
says "$((least - 1)) is too small here; the smallest that works is $least"
absent m
expect 2 pack-chunks unpack $repo -C m --memory 100kB
says 'the smallest that works is 2097152'
expect 0 pack-chunks unpack $repo -C unpacked --memory 2MiB
expect 0 fetch hf:me/cache set --out m --memory "$least"
same_tree m

# what breaks is continued, and said; what is wrong is fetched again, then reported
for case in 'drop 50000 *9' 'noranges' 'noranges|drop 150000 *2' 'status 503 *3' 'status 429 1 *4' 'api-status 500 *1' 'corrupt-name part.001 *1'; do
  IFS='|' read -r first second <<<"$case"
  trouble "$first" "$second"
  rm -rf b
  # each frame is a range, on eight threads
  expect 0 fetch hf:me/cache set --out b -T 16 --memory 4MiB || echo "    with $case"
  same_tree b
  says 'again in|continuing in|damaged|ignores ranges'
done
trouble 'corrupt-name part.001'
rm -rf b
expect 3 fetch hf:me/cache set --out b
says 'part\.001: at byte [0-9]+: frame [0-9]+ was wrong at every try'
absent b/tree/noise
trouble
expect 0 fetch hf:me/cache set --out b
same_tree b; only_tree b

# replaced in part: found out before anything is fetched
cp $repo/set.tar.zst.part.001 good
head -c "$(stat -c %s good)" src/tree/noise >$repo/set.tar.zst.part.001
expect 3 fetch hf:me/cache set --out r
says 'part\.001: is not the part that manifest\.set\.json lists'
absent r/tree
mv $repo/set.tar.zst.part.001 moved
expect 1 fetch hf:me/cache set --out r
says 'incomplete'
mv good $repo/set.tar.zst.part.001

# refused for good: once, with advice
trouble 'token secret'
expect 1 fetch hf:me/cache set --out g
says 'set HF_TOKEN'
HF_TOKEN=wrong expect 1 fetch hf:me/cache set --out g
says 'the token may not read it'
not_shown wrong
asked /tree/ 2
HF_TOKEN=secret expect 0 fetch hf:me/cache set --out g
same_tree g
not_shown signature=
grep -q '/resolve/.* token$' hub/.requests || fail "the token was not sent to the hub"
! grep -q 'localhost.* token$' hub/.requests || fail "the token was sent to another host"
mkdir -p "$HF_HOME" && echo secret >"$HF_HOME/token"
expect 0 fetch hf:me/cache set --out g2
rm "$HF_HOME/token"
HF_TOKEN=$'a\r\nX: b' expect 1 fetch hf:me/cache set --out g3
for status in 401 403 404; do
  trouble "status $status"
  expect 1 fetch hf:me/cache set --out refused
  says "manifest\.set\.json: the server answers $status: "
  asked /resolve/ 1
done

# a hostile listing
trouble 'link-host https://elsewhere.invalid' 'token secret'
HF_TOKEN=secret expect 0 fetch hf:me/cache set --out l
trouble 'endless'
expect 1 fetch hf:me/cache set --out l2
says 'does not end'
for bad in 'file:///etc' 'gopher://127.0.0.1:1'; do
  trouble "link-host $bad"
  expect 1 fetch hf:me/cache set --out l2
done
trouble
expect 2 fetch hf:me --out x
expect 2 fetch me/cache --out x
expect 2 fetch hf:me/cache set

# A name that cannot be resolved is tried again, as often as any other failure.
HF_ENDPOINT=http://no-such-host.invalid timeout 5 pack-chunks fetch hf:me/cache set --out "$WORK/unresolved" >"$WORK/out" 2>"$WORK/err"
says 'again in 2 s'
finish
