# A command that wrote something ends with the command that comes next, which is run here as printed. A dry run, and a run
# that had nothing to do, say of no next step what they did not do.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/tools/hub.sh"
D="$WORK/here/it's \"a\" \$place"
mkdir "$D" && cp -r "$GOLDEN/ds4-mini/checkpoint" "$D/ck" && chmod -R u+w "$D/ck" && cd "$D" || exit 1

for world in 1 2; do
  follow build-planescache ck -o "c $world" --store "s $world" --world $world --ckpt-id "an 'id'"
  follow build-planescache ck -o "one $world" --world $world --rank 0 --ckpt-id x
  follow build-planescache ck -o "for $world" --store "for s$world" --world $world --for resident --ckpt-id x
  follow build-fp4-packs ck -o "packs $world" --world $world --ckpt-id x --tiers base,delta
  follow build-fp4-packs --from-planescache "c $world" -o "from $world" --world $world
done
for mode in resident resident-split host host-split host-2bit; do follow build-fp4-packs ck -o "packs $mode" --for $mode --ckpt-id x; done
# The engine reads no planes cache of FP8 experts, only packs of host modes.
F8=$GOLDEN/glm-fp8-mini/checkpoint
for mode in resident host host-2bit; do
  follow build-planescache "$F8" -o "f8 $mode" --store "f8s $mode" --for $mode --ckpt-id x
  follow build-fp4-packs "$F8" -o "f8p $mode" --for $mode --ckpt-id x
done
follow build-planescache "$F8" -o "f8 all" --store "f8s all" --tiers base,fp4 --ckpt-id x
rm "f8 resident"/v2/*/*/layer1.sc2.bin; follow verify-ckpt-id repair "f8 resident" --checkpoint "$F8"
ends build-planescache ck -o new --ckpt-id x -n
follow build-planescache ck -o sign --zero-mode sign --fp4 quintal # the content id
follow verify-ckpt-id rekey --from "an 'id'" --to "another \$id" --planescache "c 1" --store "s 1"
ends verify-ckpt-id rekey --from "another \$id" --to y --planescache "c 1" -n

# Heat, and what is not wanted any more.
expect 0 make-trace t.npy --ticks 50 --layers 2 --experts 3 --per-layer 2 -q
follow size-tiers t.npy --write-heat "s 1"; prints 'with its heat file'
ends size-tiers t.npy
expect 0 build-planescache ck -o "c 1" --store "s 1" --ckpt-id z -q
ends verify-ckpt-id prune --keep z --planescache "c 1" --store "s 1"
follow verify-ckpt-id prune --keep z --planescache "c 1" --store "s 1" --force; prints '^.?z.?.*: complete'
ends verify-ckpt-id prune --keep z --planescache "c 1" --store "s 1" --force

# Chunks, and a manifest of files that are below it and that are not.
follow pack-chunks pack "c 1" "s 1" --name set --out parts --part-size 100kB --frame-size 16KiB
follow pack-chunks unpack parts -C back
follow verify-ckpt-id manifest ck -o m.json
mkdir elsewhere && follow verify-ckpt-id manifest ck -o elsewhere/m.json
cp -r parts/. "$WORK/here/$repo" && cd "$WORK/here" && start_hub && cd "$D" || exit 1
follow pack-chunks fetch hf:me/cache set --out fetched
cp -r ck ck2 && expect 0 pack-chunks pack ck2 --name ck --out parts2 -q && follow pack-chunks unpack parts2 -C back2

# Repairs: a cache, packs, both, ranks of one and of two worlds, chunks, all at once.
flip() { printf '\125' | dd of="$1" bs=1 seek=77 conv=notrunc status=none; }
flip "c 1"/v2/*/tp1-rank0/layer1.fp13.bin
follow verify-ckpt-id repair "c 1" --checkpoint ck && grep -q '^verify-ckpt-id check --planescache' "$WORK/next" || fail "not checked"
rm "s 1"/base.*of1.json
follow verify-ckpt-id repair "s 1" && grep -q '^verify-ckpt-id check --store' "$WORK/next" || fail "not checked"
flip "c 1"/v2/*/tp1-rank0/layer1.fp13.bin; rm "s 1"/base.*of1.json
follow verify-ckpt-id repair "c 1" "s 1" --checkpoint ck && grep -q '^verify-ckpt-id check --planescache .* --store' "$WORK/next" || fail "not checked"
flip "c 2"/v2/*/tp2-rank1/meta.json
follow verify-ckpt-id repair "c 2"/v2/*/tp2-rank1 && grep -q -- '--rank 1$' "$WORK/next" || fail "not the rank"
flip "c 2"/v2/*/tp2-rank0/meta.json
follow verify-ckpt-id repair "c 2"
flip parts/SHA256SUMS.set; flip "c 1"/v2/*/tp1-rank0/meta.json; touch "$(echo "c 1"/v2/*/tp1-rank0)/extra"
follow verify-ckpt-id repair "c 1" parts "c 2"; prints '0 bytes'
ends verify-ckpt-id repair "c 1" parts
ends verify-ckpt-id repair "c 1" parts -n

# Checkpoints.
follow repack-experts build ck four --levels 4 --granularity tensor-sym
ends repack-experts build ck five --levels 4 --granularity tensor-sym -n
finish
