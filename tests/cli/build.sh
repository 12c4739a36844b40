# build-planescache and build-fp4-packs: what they print, refuse, keep and leave behind.
source "$(dirname "$0")/common.sh"
CK=$GOLDEN/ds4-mini/checkpoint PIN=golden-ds4-mini RIGHT=$GOLDEN/ds4-mini/expected/tp1
cd "$WORK" || exit 1
as_engine() { (cd "$1" && find . -type f ! -name '*manifest.json' | sort); }

# --- one pass, and what the engine would have written ---
expect 0 build-planescache "$CK" -o t/planescache --store t/store --ckpt-id $PIN -T 2
prints '^layers    2 converted, 0 already there$'
prints '^complete  all layers are there'
says "export VLLM_MOE_W2_CKPT_ID=.*$PIN"
for file in $(as_engine "$RIGHT"); do same "$RIGHT/$file" "t/$file"; done
[ "$(as_engine t)" = "$(as_engine "$RIGHT")" ] || fail "other files than the engine's: $(as_engine t)"

# --- again: nothing to do; --json; --quiet ---
expect 0 build-planescache "$CK" -o t/planescache --store t/store --ckpt-id $PIN --json -q
[ -s err ] && fail "--quiet said something: $(cat err)"
prints '"layers_converted": 0'; prints '"complete": true'
python3 -c 'import json, sys; json.load(open("out"))' 2>/dev/null || fail "--json is not one document"

# --- two processes at once over disjoint layers, into one output ---
build-planescache "$CK" -o p/planescache --store p/store --ckpt-id $PIN --layers 0 -q >/dev/null &
build-planescache "$CK" -o p/planescache --store p/store --ckpt-id $PIN --layers 1 -q >/dev/null || fail "layer 1 failed"
wait $! || fail "layer 0 failed"
for file in $(cd t && find . -type f); do same "t/$file" "p/$file"; done
[ "$(find p -type f | wc -l)" = "$(find t -type f | wc -l)" ] || fail "strays: $(find p -type f)"

# --- from the cache; two identities have to be told apart ---
expect 0 build-fp4-packs --from-planescache t/planescache -o s/store
prints '^copied '; prints '^complete '
for file in $(cd t/store && find . -type f); do same "t/store/$file" "s/store/$file"; done
expect 0 build-planescache "$CK" -o t/planescache --ckpt-id another
expect 2 build-fp4-packs --from-planescache t/planescache -o s2
says 'several identities; choose one with --ckpt-id: another, golden-ds4-mini'
expect 0 build-fp4-packs --from-planescache t/planescache -o s2 --ckpt-id another --tiers base,fp4q
absent s2/fp4.v2.json
expect 1 build-fp4-packs --from-planescache t/planescache -o s2 --ckpt-id other
expect 2 build-fp4-packs --from-planescache t/planescache -o s3 --ckpt-id another --layers 0,5
says 'has no layer 5; the layers it has are 0 to 1'
expect 2 build-fp4-packs --from-planescache t/planescache -o s3 --served-path /model
absent s3
expect 2 build-fp4-packs -o s3
expect 2 build-fp4-packs "$CK" --from-planescache t/planescache -o s3

# --- a damaged cache is not made into packs ---
directory=$(dirname "$(grep -l '"another"' t/planescache/v2/*/tp1-rank0/meta.json)")
printf 'X' | dd of="$directory/layer1.fp13.bin" bs=1 seek=40000 conv=notrunc status=none
expect 3 build-fp4-packs --from-planescache t/planescache -o s4 --ckpt-id another --tiers delta --reflink never
says 'layer1.fp13.bin: at byte 24576: expert 1 is not what the manifest says'
grep -q '"layers": \[\]\|"layers": \[0\]' s4/delta*.json || fail "the damaged layer is listed"

# --- damage that --force repairs, and says so before ---
cp -r t d; meta=$(echo d/planescache/v2/*/tp1-rank0/meta.json); meta=${meta##* }
sidecar=$(echo d/store/base.*.rank0of1.json) pack=$(echo d/store/delta.*.pack)
all() { build-planescache "$CK" -o d/planescache --store d/store --ckpt-id "$1" "${@:2}"; }
pin=$(grep -q '"another"' "$meta" && echo another || echo $PIN)
cp "$meta" good; echo '{}' >"$meta"
expect 1 all "$pin"
says 'meta.json: does not match the directory.s name; --recheck writes it again'
expect 0 all "$pin" --force
same good "$meta"
echo garbage >"$sidecar"; truncate -s -1 "$pack"
expect 1 all $PIN
says 'rank0of1.json: .*; --recheck writes it again, and so does verify-ckpt-id repair'
expect 3 verify-ckpt-id check --store d/store --ckpt-id $PIN
prints '^base pack'
prints 'MISS  the sidecar is'
expect 0 all $PIN --force
for file in $(as_engine "$RIGHT/store"); do same "$RIGHT/store/$file" "d/store/$file"; done

# --- the plan ---
expect 0 build-planescache "$CK" -o n -n --store n2 --tiers base,delta,fp4,fp4q
prints '18 expert weight tensors, 230 KiB \(235008 bytes\) read'
prints '^left alone   MTP: 12 tensors'
prints '^written      fp4q pack: 4 files.*with holes; .*split mode'
expect 0 build-planescache "$CK" -o n -n --json
prints '"written_bytes": 345600'

# --- wrong use is explained, and nothing is left behind ---
refused() { local status=$1 pattern=$2; shift 2; expect "$status" "$@"; says "$pattern"; absent n; absent n2; }
refused 2 'layer 9 has no routed experts; the layers that have are 0 to 1' build-planescache "$CK" -o n --ckpt-id x --layers 9
refused 2 "--layers is empty" build-planescache "$CK" -o n --ckpt-id x --layers ""
mkdir sealed; chmod a-w sealed
if [ "$(id -u)" != 0 ] || mount -t tmpfs -o ro none sealed 2>/dev/null; then
  refused 1 'sealed: is not writable: ' build-planescache "$CK" -o sealed/n --ckpt-id x -n
  refused 1 'sealed: is not writable: ' build-fp4-packs "$CK" -o sealed/n --ckpt-id x
  refused 1 'sealed: is not writable: ' build-fp4-packs --from-planescache d/planescache --ckpt-id $PIN -o sealed/n -n
  umount sealed 2>/dev/null
else
  echo "note: nothing can be mounted here, no test of a read-only target"
fi
refused 2 "'0-' is not a list like 0-2,7" build-planescache "$CK" -o n --ckpt-id x --layers 0-
refused 2 'intermediate size 128 is not divisible by world 3' build-planescache "$CK" -o n --ckpt-id x --world 3
refused 2 'does not divide into tiles of 64 columns' build-planescache "$CK" -o n --ckpt-id x --world 4
refused 2 'rank 1 is outside a world of 1' build-planescache "$CK" -o n --ckpt-id x --rank 1
refused 2 'lies inside the checkpoint' build-planescache "$CK" -o "$CK/n" --ckpt-id x
refused 2 '10XB.* is not a size' build-planescache "$CK" -o n --ckpt-id x --memory 10XB
refused 2 'the smallest that works is 56512' build-planescache "$CK" -o n --ckpt-id x --memory 10kB
refused 2 'the smallest that works is 2097152' build-planescache "$CK" -o n --memory 10kB
refused 2 '' build-planescache "$CK" --ckpt-id x
refused 2 '' build-planescache "$CK" -o n --ckpt-id x --fp4 octal
refused 2 "tier 'fp5' is not one of" build-planescache "$CK" -o n --store n2 --tiers base,fp5 --ckpt-id x
refused 1 'there is no such directory' build-planescache nowhere -o n --ckpt-id x
mkdir empty; refused 1 'empty/config.json: is missing' build-planescache empty -o n --ckpt-id x
[ "$(id -u)" != 0 ] || refused 1 'does not tell how much space' build-planescache "$CK" -o /proc/n --ckpt-id x
ln -s "$CK" inside; refused 2 'lies inside the checkpoint' build-planescache "$CK" -o inside/n --ckpt-id x
echo text > file; refused 1 'file' build-planescache "$CK" -o file/n --ckpt-id x
expect 0 build-planescache "$CK" -o m --ckpt-id x --memory 56512 -T 8 -q

# --- one bad element: named, and finished layers kept ---
for model in ds4-mini glm-fp8-mini glm-nvfp4-mini; do
  cp -r "$GOLDEN/$model/checkpoint" "bad-$model"
  python3 - "bad-$model" <<'EOF' || skip "python3 is needed to damage a checkpoint"
import json, struct, sys
directory = sys.argv[1]
index = json.load(open(directory + "/model.safetensors.index.json"))["weight_map"]
# the last layer's first expert: a scale (MXFP4, NVFP4) or a weight (FP8) that is NaN
names = [n for n in index if ".experts.1." in n and ("down_proj" in n or ".w2." in n) and "mtp" not in n]
suffix = ".weight" if "fp8" in directory else ".weight_scale" if "nvfp4" in directory else ".scale"
name = sorted(n for n in names if n.endswith(suffix) and any(p in n for p in ("layers.1.", "layers.2.")))[-1]
path = directory + "/" + index[name]
with open(path, "r+b") as f:
    size = struct.unpack("<Q", f.read(8))[0]
    start = json.loads(f.read(size))[name]["data_offsets"][0]
    f.seek(8 + size + start + 3)
    f.write(b"\xff" if suffix == ".scale" else b"\x7f")
print(name)
EOF
  expect 1 build-planescache "bad-$model" -o "b-$model" --ckpt-id x -T 1
  says "tensor '.*experts.1.*': at byte [0-9]+: element \[0, 3\] is not finite"
  [ -z "$(find "b-$model" -name '*.tmp' -o -name '*.lock')" ] || fail "strays of $model"
done
ls b-ds4-mini/v2/*/tp1-rank0/layer0.fp2.bin >/dev/null || fail "the finished layer was not kept"

# --- stopped by a signal: finished work kept, exit 130 / 143, the same command continues ---
cp "$CK/config.json" .
make-checkpoint --family mxfp4 --layers 6 --experts 8 --hidden 1024 --intermediate 1024 -o big -q >/dev/null 2>&1 ||
  { echo "note: make-checkpoint failed, no signal test"; finish; exit; }
for signal in INT TERM; do
  status=$([ $signal = INT ] && echo 130 || echo 143)
  rm -rf "k-$signal"
  (trap - INT; exec build-planescache big -o "k-$signal" --ckpt-id x -T 1 --isa scalar -q) >/dev/null 2>err & pid=$!
  for _ in $(seq 500); do ls "k-$signal"/v2/*/tp1-rank0/layer*.fp2.bin >/dev/null 2>&1 && break; sleep 0.01; done
  kill -$signal $pid 2>/dev/null; wait $pid; got=$?
  case $got in $status) ;; 0) echo "note: the run was over before SIG$signal came" ;; *) fail "SIG$signal: exit $got" ;; esac
  [ -z "$(find "k-$signal" -name '*.tmp' -o -name '*.lock')" ] || fail "SIG$signal left temporaries"
  expect 0 build-planescache big -o "k-$signal" --ckpt-id x -q
done
expect 0 build-planescache big -o k --ckpt-id x -q
diff -r k k-INT >/dev/null && diff -r k k-TERM >/dev/null || fail "a stopped and continued run differs"

# --- a layer count that is too small leaves layers out: said in the dry run and in the build ---
cp -r "$CK" few; chmod -R u+w few; sed -i 's/"num_hidden_layers": 2/"num_hidden_layers": 1/' few/config.json
for how in --dry-run ""; do
  expect 0 build-planescache few -o few-cache --ckpt-id $PIN $how
  says 'few/config.json: has "num_hidden_layers": 1 .*shards also hold layers from 1 on \(2 in all\)'
done
finish
