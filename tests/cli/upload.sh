# scripts/upload.sh with the real hf command against a hub on loopback; what it uploads hf downloads, and the other way.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/tools/hub.sh"
export TMPDIR=$WORK/tmp && mkdir "$TMPDIR"
python_with huggingface_hub
export HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_TELEMETRY=1 HF_HUB_DISABLE_PROGRESS_BARS=1 HF_HUB_DISABLE_UPDATE_CHECK=1 PLANESMITH_UPLOAD_PAUSE=0
mkdir -p src/tree set
python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(3).randbytes(1500000))' >src/tree/noise
seq 1 50000 >src/tree/numbers
pack-chunks pack src/tree --name set --part-size 300kB --frame-size 64KiB --out set -q >/dev/null || fail "pack"
echo '# a cache' >set/README.md
: >set/set.tar.zst.part.999.tmp
HUB_PAGE=10 start_hub
export HF_TOKEN=hf_secret
upload() { "$SOURCE/scripts/upload.sh" "$@"; }
held() { diff <(cd set && sha256sum SHA256SUMS.set manifest.set.json README.md set.tar.zst.part.00?) <(cd "$1" && sha256sum SHA256SUMS.set manifest.set.json README.md set.tar.zst.part.00?) >/dev/null || fail "$1 is not what was uploaded"; }

# repository and branch are made; a damaged part stops everything before it is sent
cp set/set.tar.zst.part.003 good
printf x | dd of=set/set.tar.zst.part.003 bs=1 seek=9 conv=notrunc status=none
expect 3 upload me/new set set --private
says 'part\.003: is damaged'
absent hub/models/me/new/main/manifest.set.json
cp good set/set.tar.zst.part.003
expect 0 upload me/new set set --private --batch 4
held hub/models/me/new/main
[ -e hub/models/me/new/.private ] || fail "--private"
says 'next: pack-chunks fetch hf:me/new set'
grep -c 'me/new' hub/.commits >commits
[ "$(cat commits)" -le 4 ] || fail "$(cat commits) commits"
tail -n 1 hub/.commits | grep -q 'manifest.set.json' || fail "the manifest is not in the last commit"
: >hub/.commits
expect 0 upload me/new set set
! grep -q 'part\.' hub/.commits || fail "uploaded again: $(cat hub/.commits)"
not_shown hf_secret

# hf gets what we uploaded, and we what hf uploads
expect 0 hf download me/new --local-dir got
held got
expect 0 hf upload me/theirs src/tree caches/tree --commit-message x
expect 0 pack-chunks fetch hf:me/theirs caches --out theirs
diff -r src/tree theirs/caches/tree || fail "what hf uploaded"
expect 0 pack-chunks fetch hf:me/new set --out ours
diff -r src/tree ours/tree || fail "what we uploaded"

# while packing continues, with parts sent as they appear; a branch of a data set
mkdir later
cp set/set.tar.zst.part.00[0-2] later
(sleep 2; cp set/set.tar.zst.part.00[3-9] later; cp set/SHA256SUMS.set set/README.md later; cp set/manifest.set.json later/x; mv later/x later/manifest.set.json) &
expect 0 upload datasets/me/data set later --revision a/b --watch --delete-uploaded
held hub/datasets/me/data/a%2Fb
[ -z "$(ls later | grep part)" ] || fail "--delete-uploaded left $(ls later)"
expect 0 upload datasets/me/data set later --revision a/b

# what the hub has is compared
echo corrupt-upload >hub/.trouble
expect 3 upload me/bad set set
says "part\.000: the hub lists"
absent hub/models/me/bad/main/manifest.set.json
expect 1 upload me/none set "$WORK"
says 'packing is not complete'
expect 2 upload me/none set
[ -z "$(ls -A "$TMPDIR")" ] || fail "temporary files are left: $(ls -A "$TMPDIR" | tr '\n' ' ')"
finish
