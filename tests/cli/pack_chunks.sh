# pack-chunks: what a user types, sees and gets, and that stock tools read it.
. "$(dirname "$0")/common.sh"
for tool in zstd tar bsdtar sha256sum python3; do command -v $tool >/dev/null || skip "$tool is not installed"; done
mkdir "$WORK/here" && cd "$WORK/here" || exit 1

make_tree src/tree
fingerprint src >expected

pack() { pack-chunks pack src/tree --name set --part-size 1MiB --frame-size 256KiB "$@"; }
expect 0 pack --out out
prints '^out/manifest.set.json: 10 members, .* in 4 parts, '
says '1\.00 MiB \(1048576 bytes\)'
[ "$(LC_ALL=C ls out)" = "SHA256SUMS.set
manifest.set.json
$(printf 'set.tar.zst.part.%03d\n' 0 1 2 3)" ] || fail "unexpected files: $(ls out)"
for part in out/set.tar.zst.part.*; do
  [ "$(stat -c %s "$part")" -le 1048576 ] || fail "$part is larger than --part-size"
  grep -q "$(sha256sum <"$part" | cut -d' ' -f1)" out/manifest.set.json || fail "the SHA-256 of $part is not in the manifest"
  zstd -tq "$part" || fail "$part is not a whole number of frames"
done

(cd out && sha256sum --quiet -c SHA256SUMS.set) || fail "SHA256SUMS.set does not agree"
[ "$(ls out | grep -c '^set')" = 4 ] || fail "something besides parts begins with the name: $(ls out)"

# stock tools
mkdir t b
cat out/set.tar.zst.part.* | zstd -dq | tar -x --sparse -C t || fail "tar"
cat out/set.tar.zst.part.* | zstd -dq | bsdtar -xf - -C b || fail "bsdtar"
for dir in t b; do
  fingerprint $dir >found
  same expected found
  [ "$(stat -c %b $dir/tree/sparse)" -lt 3000 ] || fail "$dir: not sparse"
done

# the same under other circumstances, and a second run
for threads in 1 7; do
  expect 0 pack --out other -T $threads -q
  diff -r out other || fail "differs with -T $threads"
  rm -r other
done
pack-chunks pack src/tree --part-size 1MiB --frame-size 256KiB --stdout -q >stream || fail "--stdout"
cat out/set.tar.zst.part.* | cmp -s - stream || fail "--stdout gives another stream"
cp -a out before
expect 0 pack --out out
diff -r before out || fail "a second run changed something"

# links: a source that is one, a snapshot of Hugging Face, links that lead out
repository=hub/models--a--b
mkdir -p $repository/blobs $repository/snapshots/abc/sub links
printf one >$repository/blobs/11 && printf two >$repository/blobs/22
ln -s ../../blobs/11 $repository/snapshots/abc/config.json
ln -s ../../../blobs/22 $repository/snapshots/abc/sub/model.safetensors
ln -s "$PWD/$repository/snapshots/abc" current
for source in $repository/snapshots/abc current; do
  rm -rf snapshot
  expect 0 pack-chunks pack $source --as model --name set --out snapshot && expect 0 pack-chunks unpack snapshot -C snapshot
  [ "$(find snapshot/model -type f | wc -l)" = 2 ] || fail "$source: $(find snapshot/model)"
  same $repository/blobs/22 snapshot/model/sub/model.safetensors
done
rm -rf snapshot
expect 0 pack-chunks pack hub --name set --out snapshot && expect 0 pack-chunks unpack snapshot -C snapshot
[ -L snapshot/$repository/snapshots/abc/config.json ] || fail "a link to what is packed besides did not stay one"
printf x >links/f && ln -s f links/inside && ln -s absent links/dangling
expect 0 pack-chunks pack links --name set --out l1
for target in ../src/tree/noise /etc/hostname ../none f/../../x; do
  ln -sfn $target links/out
  expect 1 pack-chunks pack links --name set --out l2
  says 'links/out -> .*--dereference'
  absent l2
done
ln -sfn ../src/tree/noise links/out && rm links/dangling
expect 0 pack-chunks pack links --name set --out l2 --dereference && expect 0 pack-chunks unpack l2 -C l2
[ -f l2/links/inside ] && [ ! -L l2/links/inside ] || fail "--dereference kept a link"
same src/tree/noise l2/links/out
ln -sfn . links/loop
expect 1 pack-chunks pack links --name set --out l3 --dereference
says 'links/loop.*leads back'

# --as; the manifest's earlier name
expect 0 pack-chunks pack src/tree --as moet_store --name set --out as && expect 0 pack-chunks unpack as -C as
fingerprint as/moet_store >found
fingerprint src/tree >want
same want found
expect 2 pack-chunks pack src/tree src --as x --name set --out o
expect 2 pack-chunks pack src/tree --as ../x --name set --out o
cp -a out old && mv old/manifest.set.json old/set.manifest.json
for command in "unpack old -C from-old" "verify old" "list old" "pack src/tree --name set --part-size 1MiB --frame-size 256KiB --out old"; do
  expect 0 pack-chunks $command
done
absent old/manifest.set.json

# refusals
expect 2 pack-chunks pack src/tree --name set
expect 2 pack-chunks pack src/tree --name a/b --out o
expect 2 pack-chunks pack src/tree --name $'a\nb' --out o && says '--name has control characters'
expect 2 pack-chunks pack src/tree --name set --out o --part-size 16gigs
expect 2 pack-chunks pack src/tree --name set --out o --part-size 1MiB
says 'never split'
expect 2 pack-chunks pack src/tree --name set --out o --memory 1MiB
expect 2 pack-chunks pack src/tree --name set --out o --level 20
expect 2 pack-chunks pack src --name set --out src/tree/out
expect 1 pack-chunks pack absent --name set --out o
says 'absent'
absent o
expect 1 pack --out out --level 3
says '-f'
expect 0 pack --out out --level 3 -f
expect 0 pack --out out -f

# --dry-run writes nothing; --json is one document
expect 0 pack --out o -n
prints '^10 members'
absent o
pack --out o -n --json >plan.json 2>/dev/null || fail "--dry-run --json"
grep -q "\"members\": 10" plan.json || fail "--dry-run --json says something else"

# verify and list
expect 0 pack-chunks verify out
expect 0 pack-chunks verify out --hash both --deep --name set
expect 0 pack-chunks list out
prints '^0640 +588895 +588895 .* tree/numbers$'
prints '^0777 .* tree/link -> sub$'
prints '^10 members'
cp out/set.tar.zst.part.001 good
printf 'X' | dd of=out/set.tar.zst.part.001 bs=1 seek=77777 conv=notrunc status=none
for flags in "" "--hash sha256" "--deep" "--json"; do
  expect 3 pack-chunks verify out $flags
  prints 'set\.tar\.zst\.part\.001'
done
cp good out/set.tar.zst.part.001
rm out/set.tar.zst.part.002
expect 3 pack-chunks verify out
prints '^set\.tar\.zst\.part\.002: is missing$'
rm out/manifest.set.json
expect 1 pack-chunks verify out
expect 1 pack-chunks list out
# A damaged manifest must not cost the parts without --force.
echo '{' >out/manifest.set.json
expect 1 pack --out out; says 'manifest.set.json: .*not valid JSON.*or replace it and its parts with -f'
expect 0 pack --out out -f
finish
