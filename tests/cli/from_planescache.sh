# build-fp4-packs --from-planescache on caches as the engine leaves them, without a manifest: geometry from --config or
# --profile, what is said about bytes that nothing can check, and what is refused.
source "$(dirname "$0")/common.sh"
cd "$WORK" || exit 1
# Directories of packs, but for the source and family that a manifest names, and so its own digest.
same_but_source() {
  local dir
  for dir in "$1" "$2"; do
    rm -rf "compared-$dir"; cp -r "$dir" "compared-$dir"; sed -i -E '/^ "(source|family|digest)": /d' "compared-$dir"/*.manifest.json
  done
  diff -r "compared-$1" "compared-$2"
}

# --- every golden cache gives the golden packs ---
count=0
for expected in "$GOLDEN"/*/expected/tp1; do
  model=$(dirname "$(dirname "$expected")"); name=${model##*/}
  expect 0 build-fp4-packs --from-planescache "$expected/planescache" -o "$name" --config "$model/checkpoint"
  says "tp1-rank0 has no manifest: geometry from config .*; its bytes are taken without verification"
  prints '^copied .*, read for their digests; the cache has no manifest, so they could not be checked'
  prints '^complete '
  for file in "$expected"/store/*; do same "$file" "$name/${file##*/}"; done
  # The packs' own manifests are those of a build from the checkpoint, which alone knows the source.
  expect 0 build-fp4-packs "$model/checkpoint" --tiers base,delta,fp4 -o "right-$name" --ckpt-id "golden-$name" -q
  same_but_source "$name" "right-$name" || fail "$name: packs from the engine's cache differ from those of the checkpoint"
  expect 0 build-fp4-packs --from-planescache "$expected/planescache" -o "$name" --config "$model/checkpoint/config.json" \
    --tiers fp4q -T 2
  count=$((count + 1))
done
[ $count -ge 5 ] || fail "only $count golden caches were there"

# --- where the geometry comes from ---
MODEL=$GOLDEN/glm-nvfp4-mini
cp -a "$MODEL/expected/tp1/planescache" cache
from() { build-fp4-packs --from-planescache cache -o store "$@"; }
cat >glm.json <<'END'
{"name": "glm-mini", "geometry": {"layers": 3, "experts": 3, "hidden": 192, "intermediate": 128, "first_dense": 1}}
END
sed 's/"experts": 3/"experts": 4/' glm.json >wrong.json
expect 2 from
says 'has no manifest that says the model.s geometry; give --config or --profile'
absent store
expect 1 from --profile wrong.json
says 'layer1.planes13.bin: has [0-9]+ bytes, expected [0-9]+ according to profile glm-mini'
sed 's/"first_dense": 1/"first_dense": 2/' glm.json >wrong.json
expect 1 from --profile wrong.json
says 'layer1\.fp13\.bin: is of a layer that is not sparse according to profile glm-mini'
absent store
expect 0 from --profile glm.json -n
prints '^written   base pack: 4 files, 144 KiB \([0-9]+ bytes\), [0-9.]+ KiB with holes; 2-bit planes and scales, opened where'
prints '^written   delta pack: .*; FP4 planes, opened where'
absent store
expect 0 from --profile glm.json --json
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert len(d["without_manifest"]) == 1 and d["complete"]' out ||
  fail "--json without a manifest"
same_but_source store right-glm-nvfp4-mini || fail "packs by profile differ"
expect 2 build-fp4-packs "$MODEL/checkpoint" -o x --config "$MODEL/checkpoint"
expect 2 from --backend cuda
expect 2 from --gpus 0
expect 2 from --recompute

# --- a manifest wins, and then bytes are checked ---
expect 0 build-planescache "$MODEL/checkpoint" -o own --ckpt-id own -q
cp wrong.json own.json
expect 0 build-fp4-packs --from-planescache own -o own-store --profile own.json
prints '^copied .*, verified against the cache.s manifest'
directory=$(echo own/v2/*/tp1-rank0)
echo '{' >"$directory/manifest.json"
expect 1 build-fp4-packs --from-planescache own -o own-store --profile glm.json
says 'manifest.json: .* move it away to continue without'

# --- a cache that is not whole, or not right ---
rm cache/v2/*/tp1-rank0/layer2.sc2.bin
expect 1 from --config "$MODEL/checkpoint" --force
says 'layer2\.sc2\.bin: is missing; build the layer with build-planescache, or leave it out with --layers'
expect 0 from --config "$MODEL/checkpoint" --tiers delta --force
rm -r store
expect 0 from --config "$MODEL/checkpoint" --layers 1
prints '^complete  no'
printf X | dd of="$(echo cache/v2/*/tp1-rank0/layer1.planes2.bin)" bs=1 seek=40 conv=notrunc status=none
expect 3 from --config "$MODEL/checkpoint" --layers 1 --tiers fp4q
says 'layer1.planes2.bin: at byte 0: expert 0: the 2-bit planes are not those of the FP4 planes'
expect 1 from --config "$MODEL/checkpoint" --world 2
says "no planes cache for world 2, zero mode auto is here; there are: 'golden-glm-nvfp4-mini' \(world 1, zero mode auto\)"
echo '{}' >"$(echo cache/v2/*/tp1-rank0/meta.json)"
expect 1 from --config "$MODEL/checkpoint"
says 'there are: v2/[0-9a-f]*/tp1-rank0, of no identity \(meta.json: '
finish
