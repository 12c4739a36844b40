. "$(dirname "$0")/common.sh"
cd "$WORK" || exit 1

# Everything about a directory but access times.
look() { find "$1" -printf '%p %y %s %m %T@ %C@ %i %l\n' | LC_ALL=C sort; }

mkdir -p tree/sub 'tree/odd names'
printf 'one\n' >tree/one; : >tree/empty; printf 'x' >'tree/odd names/"q" é'
head -c 20000000 /dev/zero >tree/sub/big; printf tail >>tree/sub/big
ln -s one tree/link; ln -s /etc/passwd tree/out

expect 0 verify-ckpt-id manifest tree --out m.json && prints '^m.json: 6 files, '
expect 0 verify-ckpt-id manifest tree -o again.json -T 1 -q && same m.json again.json
grep -q '"sha256": "'"$(sha256sum <tree/sub/big | cut -c1-64)"'"' m.json || fail "SHA-256 of the big file"
grep -q "$PWD\|$(hostname)" m.json && fail "the manifest names this machine"
expect 0 verify-ckpt-id manifest tree -o xxh3.json --hash xxh3 && { grep -q sha256 xxh3.json && fail "SHA-256 though not asked for"; }

# A good tree, on which nothing is ever written: not even when its permissions forbid it anyway.
chmod -R a-w tree; look tree >before
for flags in "" --quick "--hash sha256" "--hash both" "-T 1" "--memory 4MiB" --json; do
  expect 0 verify-ckpt-id verify m.json $flags
done
prints '"ok": true'
expect 0 verify-ckpt-id verify m.json --root "$PWD" && prints '^ok: 6 files'
expect 0 verify-ckpt-id verify m.json --root tree && prints '^ok: 6 files'
look tree >after; same before after
chmod -R u+w tree
expect 2 verify-ckpt-id verify xxh3.json --hash sha256 && says 'no SHA-256'
expect 2 verify-ckpt-id verify m.json --hash md5
expect 2 verify-ckpt-id verify m.json --memory 1000
expect 2 verify-ckpt-id verify
expect 2 verify-ckpt-id manifest tree
expect 1 verify-ckpt-id verify nowhere.json && says 'nowhere.json'
expect 1 verify-ckpt-id manifest nowhere --out n.json && absent n.json

# A moved copy, a changed byte in the middle of the big file, and each kind of difference.
cp -a tree copy
expect 0 verify-ckpt-id verify m.json --root copy
printf X | dd of=copy/sub/big bs=1 seek=9000000 conv=notrunc status=none
expect 3 verify-ckpt-id verify m.json --root copy && prints '^content +sub/big: block 1 \(bytes 8388608-16777215\) differs' && prints '^to do: '
expect 3 verify-ckpt-id verify m.json --root copy --hash sha256 && prints 'SHA-256 is'
expect 0 verify-ckpt-id verify m.json --root copy --quick
rm copy/one; printf more >>copy/empty; touch copy/new; ln -sf elsewhere copy/link
expect 3 verify-ckpt-id verify m.json --root copy --json
for kind in content missing size extra link; do prints "\"kind\": \"$kind\""; done
expect 3 verify-ckpt-id verify m.json --root copy --allow-extra && ! grep -q '^extra' "$WORK/out" || fail "--allow-extra"

# A manifest outside its files' directory says so.
mkdir elsewhere
expect 3 verify-ckpt-id verify m.json --root elsewhere && prints 'give the directory .* --root'
expect 0 verify-ckpt-id manifest tree/sub --out elsewhere/m.json && says "--root $PWD/tree\$"
expect 0 verify-ckpt-id verify elsewhere/m.json --root tree
expect 0 verify-ckpt-id verify elsewhere/m.json --root tree/sub

# A snapshot of a Hugging Face cache is links: what can be done is said, and works.
mkdir -p hub/models--a--b/blobs hub/models--a--b/snapshots/0123/sub
for file in one sub/big; do
  cp "tree/$file" "hub/models--a--b/blobs/$(sha256sum <"tree/$file" | cut -c1-64)"
done
ln -s "../../blobs/$(sha256sum <tree/one | cut -c1-64)" hub/models--a--b/snapshots/0123/one
ln -s "../../../blobs/$(sha256sum <tree/sub/big | cut -c1-64)" hub/models--a--b/snapshots/0123/sub/big
(cd tree && sha256sum one sub/big >../FEW)
expect 3 verify-ckpt-id verify FEW --root hub/models--a--b/snapshots/0123
prints '^link +one: is a link to ../../blobs/[0-9a-f]{64}, a file was expected; links are not followed$'
command=$(sed -n 's/^to do: .* with \(cp .*\) DIR (.*), and verify with --root DIR$/\1/p' "$WORK/out")
eval "$command files" || fail "the printed command: $command"
expect 0 verify-ckpt-id verify FEW --root files
[ "$(stat -c %h files/one)" = 2 ] || fail "cp made copies"
expect 0 verify-ckpt-id manifest hub/models--a--b/snapshots/0123 -o snapshot.json
says '^2 links lead to files outside the manifest; only the links are recorded'
expect 0 verify-ckpt-id verify snapshot.json
prints '^note: 2 files, the first of them .*/one: a link; it is the same, but what it leads to is not in the manifest'

# Hostile manifests, and files that are not manifests.
sed 's|"tree/one"|"../one"|' m.json >bad.json
expect 1 verify-ckpt-id verify bad.json && says "'../one' is not a path below"
sed 's|"size": 4|"size": 20000004|' m.json >bad.json
expect 1 verify-ckpt-id verify bad.json && says 'block digests'
head -c 300 m.json >bad.json
expect 1 verify-ckpt-id verify bad.json && says 'not valid JSON'
printf 'hello\n' >bad.json
expect 1 verify-ckpt-id verify bad.json && says 'line 1 is not what sha256sum writes'
: >bad.json
expect 1 verify-ckpt-id verify bad.json

# Lists that sha256sum wrote, and a list for sha256sum.
(cd tree && find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum >../SUMS)
expect 0 verify-ckpt-id verify SUMS --root tree --allow-extra && prints '^ok: 4 files'
(cd tree && find . -type f -print0 | xargs -0 sha256sum --tag >../SUMS)
expect 0 verify-ckpt-id verify SUMS --root tree --allow-extra
expect 3 verify-ckpt-id verify SUMS --root tree && prints '^extra +link'
expect 3 verify-ckpt-id verify SUMS --root copy

# An upload, checked against the hub's listing without a download.
git_sha1() { { printf 'blob %s\0' "$(stat -c %s "$1")"; cat "$1"; } | sha1sum | cut -c1-40; }
mkdir up; printf '{}' >up/config.json; head -c 100000 /dev/urandom >up/data.bin
expect 0 verify-ckpt-id manifest up --out up/manifest.json
listing() {
  printf '[{"type": "directory", "oid": "0", "size": 0, "path": "v2"}, {"type": "file", "oid": "%s", "size": 2, "path": "v2/config.json"},' "$1"
  printf '{"type": "file", "oid": "77", "size": 100000, "path": "v2/data.bin", "lfs": {"oid": "%s", "size": 100000, "pointerSize": 131}}]' "$2"
}
listing "$(git_sha1 up/config.json)" "$(sha256sum up/data.bin | cut -c1-64)" >tree.json
expect 0 verify-ckpt-id verify up/manifest.json --hf-tree tree.json
expect 0 verify-ckpt-id verify up/manifest.json --hf-tree tree.json --quick
listing "$(git_sha1 up/config.json)" "$(sha256sum tree/one | cut -c1-64)" >tree.json
expect 3 verify-ckpt-id verify up/manifest.json --hf-tree tree.json --quick && prints '^listing +data.bin: SHA-256 in the repository' && prints 'upload'
listing "$(git_sha1 tree/one)" "$(sha256sum up/data.bin | cut -c1-64)" >tree.json
expect 3 verify-ckpt-id verify up/manifest.json --hf-tree tree.json --quick && prints '^listing +config.json: git'
sed 's|v2/||g' tree.json >flat.json
expect 3 verify-ckpt-id verify flat.json --root up --allow-extra && prints '^content +config.json: git'

# A cache and packs: any single byte that is not as it was is found, and blamed.
expect 0 build-planescache "$GOLDEN/ds4-mini/checkpoint" --out built --store built/store --tiers base,delta --ckpt-id 'A B' -q
directory=$(echo built/v2/*/tp1-rank0); pack=$(echo built/store/base*.pack)
look built >before
expect 0 verify-ckpt-id verify "$directory/manifest.json"
expect 0 verify-ckpt-id verify "$pack.manifest.json" --hash both && prints "no SHA-256 is recorded"
look built >after; same before after
printf '\377' | dd of="$directory/layer1.sc2.bin" bs=1 seek=1 conv=notrunc status=none
expect 3 verify-ckpt-id verify "$directory/manifest.json" && prints '^content +layer1.sc2.bin: expert 0 ' && prints "build-planescache .* --out $PWD/built .*--ckpt-id 'A B' .*--layers 1 --force"
printf '\377' | dd of="$pack" bs=1 seek=$(($(stat -c %s "$pack") - 1)) conv=notrunc status=none
expect 3 verify-ckpt-id verify "$pack.manifest.json" && prints 'is not zero'
# What is printed repairs, when the checkpoint's directory is filled in: bytes that must be zero, a lost meta.json, lost
# sidecars, and in each of the two packs one layer.
repair() { sed -n 's/^to do: .*\(build-.*\|fallocate .*\|printf .*\)$/\1/p' "$WORK/out" | sed "s|CHECKPOINT|$GOLDEN/ds4-mini/checkpoint|" >repair.sh; (cd / && bash "$WORK/repair.sh" >/dev/null) || fail "the printed command: $(cat repair.sh)"; }
expect 3 verify-ckpt-id verify "$directory/manifest.json"; repair
expect 3 verify-ckpt-id verify "$pack.manifest.json"; prints '^to do: zero these bytes: fallocate'; repair
for manifest in "$directory/manifest.json" "$pack.manifest.json"; do expect 0 verify-ckpt-id verify "$manifest"; done
rm "$directory/meta.json" "${pack%.pack}.json"
for manifest in "$directory/manifest.json" "$pack.manifest.json"; do
  expect 3 verify-ckpt-id verify "$manifest"; prints '^to do: write it again: printf'; repair
  expect 0 verify-ckpt-id verify "$manifest"
done
delta=$(echo built/store/delta*.pack)
for file in "$pack" "$delta"; do
  printf '\377' | dd of="$file" bs=1 seek=$(($(stat -c %s "$file") / 3 + 5)) conv=notrunc status=none
  expect 3 verify-ckpt-id verify "$file.manifest.json"; prints "build-fp4-packs .* --out $PWD/built/store .* --layers 1 --force$"; repair
  expect 0 verify-ckpt-id verify "$file.manifest.json"
done

# The same model built under another identity holds the same data.
expect 0 build-planescache "$GOLDEN/ds4-mini/checkpoint" --out other --ckpt-id C -q
cp "$directory/manifest.json" published.json
expect 3 verify-ckpt-id verify published.json --root other/v2/*/tp1-rank0 && prints "^identity +meta.json: is of identity 'C', the manifest of 'A B'" && prints '^1 differences'
expect 0 build-planescache "$GOLDEN/ds4-mini/checkpoint" --out rebuilt --ckpt-id 'A B' -q
expect 0 verify-ckpt-id verify published.json --root rebuilt/v2/*/tp1-rank0
# What tools and systems leave in a directory is not its content.
mkdir dropped && echo a >dropped/a && expect 0 verify-ckpt-id manifest dropped --out dropped.json
mkdir -p dropped/.git dropped/.Trash-0 dropped/__pycache__
for name in .git/x .Trash-0/x __pycache__/x .DS_Store Thumbs.db desktop.ini .nfs00000000012f3c7a00000001 .fuse_hidden0000a1 ._a .gitattributes .gitignore; do echo x >"dropped/$name"; done
expect 0 verify-ckpt-id verify dropped.json --root dropped
echo x >dropped/.hidden; expect 3 verify-ckpt-id verify dropped.json --root dropped; prints '^extra +\.hidden'
prints '^1 extra files and no differences, 1 files compared'
echo b >dropped/a; expect 3 verify-ckpt-id verify dropped.json --root dropped; prints '^1 differences and 1 extra files, 1 files compared'
finish
