# repack-experts build: what it writes, what it links, what it refuses.
. "$SOURCE/tests/cli/common.sh"
MINI=$GOLDEN/ds4-mini/checkpoint
SECOND=model-00002-of-00004.safetensors THIRD=model-00003-of-00004.safetensors
build() { repack-experts build -q "$@"; }
state() { (cd "$1" && find . -printf '%p %i %s %T@ %C@ %n %l\n' | sort); }
sums() { (cd "$1" && find -L . -type f ! -path './.repack-experts/*' -exec sha256sum {} + | sort -k2); }

cp -r "$MINI" "$WORK/in"
mkdir -p "$WORK/in/.cache/huggingface" "$WORK/in/assets"
echo digest > "$WORK/in/.cache/huggingface/x.metadata"
echo picture > "$WORK/in/assets/logo.png"
before=$(state "$WORK/in")

# Every figure and digest of the reference that one run can show.
expect 0 build "$WORK/in" "$WORK/new" --levels 4 --granularity tensor-sym --stats-out "$WORK/stats.json"
python3 - "$GOLDEN/ds4-mini/repack.json" "$WORK/stats.json" "$WORK/new" <<'PY' || fail "figures or digests differ"
import hashlib, json, sys
golden = json.load(open(sys.argv[1]))["tensor-sym/K4"]
stats = json.load(open(sys.argv[2]))
assert stats["granularity"] == "tensor-sym" and stats["levels"] == 4
assert stats["files"].keys() == golden.keys(), stats["files"].keys()
for file, want in golden.items():
    for key, value in want.items():
        got = hashlib.sha256(open(f"{sys.argv[3]}/{file}", "rb").read()).hexdigest() if key == "sha256" else stats["files"][file][key]
        assert got == value, (file, key, got, value)
assert stats["total"]["codebooks"] == {"[-4.0, -1.0, 1.0, 4.0]": 18}, stats["total"]
PY
[ "$(state "$WORK/in")" = "$before" ] || fail "the source changed"
for file in config.json model.safetensors.index.json tokenizer.json model-00001-of-00004.safetensors \
            model-00004-of-00004.safetensors assets/logo.png; do
  [ "$(readlink "$WORK/new/$file")" = "$(realpath "$WORK/in/$file")" ] || fail "$file is not linked"
done
for file in $SECOND $THIRD; do
  [ -f "$WORK/new/$file" ] && [ ! -L "$WORK/new/$file" ] || fail "$file is not a file of its own"
done
absent "$WORK/new/.cache"
[ -z "$(find "$WORK/new" -name '*.tmp' -o -name '*.lock')" ] || fail "something is left behind"

# Outside the weights nothing changes: header, scales.
cmp -l "$WORK/in/$SECOND" "$WORK/new/$SECOND" > "$WORK/differences"
header=$(od -An -tu8 -N8 "$WORK/in/$SECOND" | tr -d ' ')
awk -v begin=$((8 + header + 6912)) '$1 <= begin { exit 1 }' "$WORK/differences" || fail "bytes outside the weights changed"
[ -s "$WORK/differences" ] || fail "nothing was repacked"

# A second run changes nothing and says the same; what is missing is done again, and only that.
after=$(state "$WORK/new")
expect 0 build "$WORK/in" "$WORK/new" --levels 4 --granularity tensor-sym --stats-out "$WORK/stats2.json"
prints 'finished before'
same "$WORK/stats.json" "$WORK/stats2.json"
[ "$(state "$WORK/new" | grep -v '^./.repack-experts ')" = "$(echo "$after" | grep -v '^./.repack-experts ')" ] || fail "the second run changed something"
rm "$WORK/new/$THIRD" "$WORK/new/config.json"
expect 0 build "$WORK/in" "$WORK/new" --levels 4 --granularity tensor-sym
[ "$(state "$WORK/new" | grep $SECOND)" = "$(echo "$after" | grep $SECOND)" ] || fail "$SECOND was written again"
[ -L "$WORK/new/config.json" ] || fail "config.json was not linked again"
want=$(sums "$WORK/new")

# Another build, or anything else, is not overwritten without --force.
expect 1 build "$WORK/in" "$WORK/new" --levels 4 --granularity row
says 'holds another build.*--force'
[ "$(sums "$WORK/new")" = "$want" ] || fail "the refused run changed something"
expect 0 build "$WORK/in" "$WORK/new" --levels 4 --granularity row --force
[ "$(sums "$WORK/new")" != "$want" ] || fail "--force did not build anew"
mkdir "$WORK/full" && touch "$WORK/full/mine"
expect 1 build "$WORK/in" "$WORK/full" --levels 4 --granularity row
says 'is not empty'
expect 1 build "$WORK/in" "$WORK/full/mine" --levels 4 --granularity row
says 'is not a directory'

# Other ways to bring the rest along.
expect 0 build "$WORK/in" "$WORK/copy" --levels 4 --granularity tensor-sym --link copy
[ -z "$(find "$WORK/copy" -type l)" ] || fail "--link copy made links"
[ "$(sums "$WORK/copy")" = "$want" ] || fail "--link copy differs"
after=$(state "$WORK/copy" | grep -v '^./.repack-experts ')
expect 0 build "$WORK/in" "$WORK/copy" --levels 4 --granularity tensor-sym --link copy
[ "$(state "$WORK/copy" | grep -v '^./.repack-experts ')" = "$after" ] || fail "copies were made again"
if build "$WORK/in" "$WORK/shared" --levels 4 --granularity tensor-sym --link reflink 2> "$WORK/err"; then
  [ "$(sums "$WORK/shared")" = "$want" ] || fail "--link reflink differs"
else
  says 'cannot share blocks'
fi
expect 2 build "$WORK/in" "$WORK/hard" --levels 4 --granularity tensor-sym --link hard
says 'sym, reflink and copy'

# All instruction sets, one thread or more, give the same.
for isa in scalar avx2 avx512 neon; do
  repack-experts build -n -q "$MINI" "$WORK/x" --levels 4 --granularity row --isa $isa > /dev/null 2>&1 || continue
  expect 0 build "$MINI" "$WORK/$isa" --levels 3 --granularity block32 --isa $isa -T 3
  same "$WORK/$isa/$SECOND" "$WORK/scalar/$SECOND"
done

# Source and target must not contain one another.
ln -s in "$WORK/alias"
for target in "$WORK/in" "$WORK/in/" "$WORK/in/new" "$WORK/alias" "$WORK/alias/a/b" "$WORK" "$WORK/in/../in/./x"; do
  expect 2 build "$WORK/in" "$target" --levels 4 --granularity row
  says 'must not contain one another'
done
mkdir "$WORK/trap" && ln -s "$WORK/in/assets" "$WORK/trap/assets"
expect 1 build "$WORK/in" "$WORK/trap" --levels 4 --granularity row --force
says 'assets: is a symbolic link'
[ "$(state "$WORK/in")" = "$before" ] || fail "the source changed"

# Wrong use.
for wrong in '--levels 1 --granularity row' '--levels 17 --granularity row' '--levels four --granularity row' \
             '--levels 5 --granularity tensor-sym' '--levels 4 --granularity rows' '--levels 4' '--granularity row' \
             '--levels 4 --granularity row --memory 1kB' '--levels 4 --granularity row --memory lots'; do
  expect 2 build "$WORK/in" "$WORK/wrong" $wrong
done
absent "$WORK/wrong"
expect 1 build "$WORK/nowhere" "$WORK/wrong" --levels 4 --granularity row
expect 1 build "$GOLDEN/glm-nvfp4-mini/checkpoint" "$WORK/wrong" --levels 4 --granularity row
says 'NVFP4'
absent "$WORK/wrong"

# A dry run writes nothing.
expect 0 build "$WORK/in" "$WORK/dry" --levels 4 --granularity expert -n --stats-out "$WORK/dry.json"
prints "$SECOND: 9 expert tensors, 116 KiB \(119280 bytes\) to be written"
prints '^to write: 233 KiB \(238560 bytes\)'
prints 'left out: .cache'
absent "$WORK/dry"
absent "$WORK/dry.json"

# A Hugging Face cache: shards are links out of the directory.
mkdir -p "$WORK/hub/snapshots/1" "$WORK/hub/blobs"
for file in "$MINI"/*; do
  cp "$file" "$WORK/hub/blobs/$(basename "$file").blob"
  ln -s "../../blobs/$(basename "$file").blob" "$WORK/hub/snapshots/1/$(basename "$file")"
done
expect 0 build "$WORK/hub/snapshots/1" "$WORK/from-hub" --levels 4 --granularity tensor-sym
same "$WORK/from-hub/$SECOND" "$WORK/copy/$SECOND"
[ ! -L "$WORK/from-hub/$SECOND" ] || fail "a rewritten shard is a link"

# 16 levels change nothing; --json prints what --stats-out writes, and the common fields.
expect 0 build "$MINI" "$WORK/same" --levels 16 --granularity tensor --json --stats-out "$WORK/same.json"
prints "rel_rms.: 0.0"
python3 -c 'import json, sys; d, s = (json.load(open(p)) for p in sys.argv[1:]); sys.exit(any(d[k] != v for k, v in s.items()))' \
  "$WORK/out" "$WORK/same.json" || fail "--json lacks what --stats-out wrote"
same "$WORK/same/$SECOND" "$MINI/$SECOND"
# Every subcommand names the profile of the model.
mkdir "$WORK/profiles"
echo '{"name": "small", "geometry": {"layers": 2, "experts": 3, "hidden": 192, "intermediate": 128}}' > "$WORK/profiles/small.json"
export PLANESMITH_PROFILES=$WORK/profiles
expect 0 repack-experts build "$MINI" "$WORK/named" --levels 4 --granularity tensor --dry-run; says 'matches profile small'
expect 0 repack-experts gate "$MINI"; says 'matches profile small'
repack-experts analyze "$MINI" >/dev/null 2>"$WORK/err"; says 'matches profile small'
finish
