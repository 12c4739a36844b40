# verify over directories, and repair: it does what it says, and nothing else.
. "$(dirname "$0")/common.sh"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint
expect 0 build-planescache "$CK" -o good --store good/s --world 2 --ckpt-id a -q
expect 0 pack-chunks pack good/s --name set --out good/parts
cp -r "$CK" good/ck
expect 0 verify-ckpt-id manifest good/ck -o good/ck.manifest.json

# One run over all of it: caches of both ranks, packs, chunks, a tree.
expect 0 verify-ckpt-id verify good
prints '^10 of 10 are what their manifests say'
prints '^planescache good/v2/[0-9a-f]{20}/tp2-rank1: ok'; prints '^pack good/s/base\.'; prints '^chunks good/parts: ok'; prints '^tree good: ok'
expect 0 verify-ckpt-id verify good/v2 good/s/*.pack good/parts/manifest.set.json && prints '^9 of 9'
expect 0 verify-ckpt-id verify good --quick && prints 'sizes only'
expect 0 verify-ckpt-id verify good --json && prints '"good": 10'
# Parts of the contents: together they are all.
total=0
for i in 1 2 3; do
  expect 0 verify-ckpt-id verify good/v2 --read-data-subset $i/3 --json
  total=$((total + $(grep -o '^ "bytes": [0-9]*' "$WORK/out" | tr -dc 0-9)))
done
expect 0 verify-ckpt-id verify good/v2 --json
[ "$(grep -o '^ "bytes": [0-9]*' "$WORK/out" | tr -dc 0-9)" = $total ] || fail "the thirds are not the whole: $total"
expect 0 verify-ckpt-id verify good/v2 --read-data-subset 10%
for wrong in 0% 101% 4/3 0/3 x 10; do expect 2 verify-ckpt-id verify good/v2 --read-data-subset $wrong; done
# What was found good recently is not read again unless it has changed.
expect 0 verify-ckpt-id verify good/v2 --since 1d --json && prints '^ "bytes": 0,'
touch good/v2/*/tp2-rank0/layer0.sc2.bin
expect 0 verify-ckpt-id verify good/v2 --since 1d --json && prints '^ "bytes": [1-9]'
expect 2 verify-ckpt-id verify good/v2 --since yesterday

# Nothing there, nothing of the kind there.
expect 1 verify-ckpt-id verify nowhere && says 'no such file or directory'
mkdir empty; expect 1 verify-ckpt-id verify empty && says 'holds no planes cache, no pack and no manifest'
expect 1 verify-ckpt-id check --planescache nowhere && says 'no such directory'
expect 1 verify-ckpt-id check --planescache good/v2 && says "is part of a planes cache; give its root, $WORK/good"
expect 1 verify-ckpt-id check --planescache good/s && says 'give it with --store'
expect 1 verify-ckpt-id check --store good/v2/.. --planescache good && says 'give'
mkdir up; mv good up/; expect 1 verify-ckpt-id check --planescache up && says 'give up/good'; mv up/good .
expect 0 verify-ckpt-id check --planescache good --store good/s && prints 'contents not read'
expect 0 verify-ckpt-id check --planescache good --store good/s --content && prints 'names, sizes and contents'

# The dry run changes nothing; what cannot be done is said with what it needs.
cp -r good d
part=$(echo d/v2/*/tp2-rank1/layer1.fp13.bin); printf X | dd of="$part" bs=1 seek=100 conv=notrunc status=none
rm "$(dirname "$part")/meta.json"
find d -type f -exec sha256sum {} + | sort >before
expect 3 verify-ckpt-id repair d --checkpoint "$CK" -n && prints 'would .*meta.json' && prints 'would .*layers 1'
find d -type f -exec sha256sum {} + | sort >after; same before after
expect 3 verify-ckpt-id repair d && prints 'give --checkpoint DIR'
[ -e "$(dirname "$part")/meta.json" ] || fail "meta.json needs no checkpoint"
expect 0 verify-ckpt-id repair d --checkpoint "$CK" && prints 'done .*layers 1' && prints '^10 of 10 are good'
expect 0 verify-ckpt-id verify d
diff -r good d || fail "not what it was"

# A part of chunks, from what it was packed from.
printf X | dd of=d/parts/set.tar.zst.part.000 bs=1 seek=1000 conv=notrunc status=none
expect 3 verify-ckpt-id verify d/parts && prints 'repair .* --source SOURCE'
expect 0 verify-ckpt-id repair d/parts --source good/s
expect 0 verify-ckpt-id verify d/parts
# The same for a set of several directories, in any order, and for one that was packed under another name.
expect 0 pack-chunks pack good/ck good/s --name two --out two -q --part-size 200kB --frame-size 16KiB
expect 0 pack-chunks pack good/s --as other --name as --out as -q
for set in two as; do printf X | dd of=$set/$set.tar.zst.part.000 bs=1 seek=1000 conv=notrunc status=none; done
expect 3 verify-ckpt-id repair two --source good/s; prints 'left +two holds ck, s: give --source once for each of them'
expect 0 verify-ckpt-id repair two --source good/s --source good/ck
expect 0 verify-ckpt-id verify two
expect 0 verify-ckpt-id repair as --source good/s
expect 0 verify-ckpt-id verify as
# Several sets in one run: each is packed from those sources that are its own.
mkdir sets; cp two/* as/* sets
for set in two as; do printf X | dd of=sets/$set.tar.zst.part.000 bs=1 seek=1000 conv=notrunc status=none; done
cp -r good/s other
expect 3 verify-ckpt-id repair sets --source good/s --source good/ck; prints 'left +as holds other: give --source'
expect 3 verify-ckpt-id verify sets; prints '^1 of 2 are'
expect 0 verify-ckpt-id repair sets --source good/s --source good/ck --source other
expect 0 verify-ckpt-id verify sets
finish
