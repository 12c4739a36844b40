# verify-ckpt-id list: identities with size and completeness; prune: removing those not wanted.
source "$(dirname "$0")/common.sh"
cp -a "$GOLDEN/glm-nvfp4-mini/expected/tp1" "$WORK/t"
cp -a "$GOLDEN"/ds4-mini/expected/tp1/store/base.* "$WORK/t/store"
RANK=$(echo "$WORK"/t/planescache/v2/*/tp1-rank0)
list() { verify-ckpt-id list --planescache "$WORK/t/planescache" --store "$WORK/t/store" "$@"; }

expect 0 list
prints "^'golden-ds4-mini' \(world 1, zero mode auto\): complete, as far as can be told without a manifest"
prints "^'golden-glm-nvfp4-mini' \(world 1, zero mode auto\): complete, as far as can be told without a manifest"
prints '^  v2/[0-9a-f]{20}/tp1-rank0: rank 0, 2 layers, FP4 nibble, [0-9.]+ KiB \([0-9]+ bytes\)$'
prints '^  base\.v2\.[0-9a-f]{20}\.rank0of1\.pack: rank 0, 2 layers, .* on disk$'

# The last layer is missing, which only the geometry shows.
mkdir "$WORK/last"; mv "$RANK"/layer2.* "$WORK/last"
expect 0 list
prints "^'golden-glm-nvfp4-mini' .*: complete, as far as"
expect 0 verify-ckpt-id list --planescache "$WORK/t/planescache" --config "$GOLDEN/glm-nvfp4-mini/checkpoint"
prints "^'golden-glm-nvfp4-mini' .*: INCOMPLETE$"
prints ' - layer 2 is missing$'
mv "$WORK"/last/* "$RANK"
expect 0 verify-ckpt-id list --planescache "$WORK/t/planescache" --config "$GOLDEN/glm-nvfp4-mini/checkpoint"
prints "^'golden-glm-nvfp4-mini' .*: complete$"

rm "$RANK/layer1.fp2.bin"
expect 0 list --json
python3 - "$WORK/out" <<'EOF' || fail "--json"
import json, sys
d = json.load(open(sys.argv[1]))
by_id = {i["ckpt_id"]: i for i in d["identities"]}
assert by_id["golden-ds4-mini"]["complete"]
glm = by_id["golden-glm-nvfp4-mini"]
assert not glm["complete"]
assert glm["planescache"][0]["reason"] == "layer1.fp2.bin is missing"
assert all(p["complete"] for p in glm["packs"]) and len(glm["packs"]) == 3
assert d["of_no_identity"] == []
EOF
expect 0 list
prints 'INCOMPLETE'
prints ' - layer1\.fp2\.bin is missing$'

rm "$RANK/meta.json"
expect 0 list
prints '^of no identity: .*tp1-rank0 - meta\.json is missing$'

prune() { verify-ckpt-id prune --planescache "$WORK/t/planescache" --store "$WORK/t/store" "$@"; }
count() { find "$WORK/t" -type f | wc -l; }
rm -rf "$WORK/t" && cp -a "$GOLDEN/glm-nvfp4-mini/expected/tp1" "$WORK/t" && cp -a "$GOLDEN"/ds4-mini/expected/tp1/store/* "$WORK/t/store"
before=$(count)
expect 0 prune --keep golden-glm-nvfp4-mini
prints '^would remove golden-ds4-mini: .*\.pack, '
prints '^keep golden-glm-nvfp4-mini: .*tp1-rank0, '
prints '; --force removes it$'
[ "$(count)" = "$before" ] || fail "prune without --force removed something"
expect 2 prune --keep golden-glm-mini --force
says "'golden-glm-mini' is to be kept, but is not there"
[ "$(count)" = "$before" ] || fail "prune with a wrong name removed something"
expect 2 prune
expect 0 prune --keep golden-glm-nvfp4-mini --force --json
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert len(d["removed"]) == 3 and len(d["kept"]) == 4' \
  "$WORK/out" || fail "prune --json"
diff -r "$WORK/t" "$GOLDEN/glm-nvfp4-mini/expected/tp1" || fail "prune removed or left the wrong things"

expect 2 verify-ckpt-id list
expect 1 verify-ckpt-id list --store "$WORK/nowhere"

# A store with strange files: they are reported and skipped, the rest is listed, and memory is bounded.
rm -rf "$WORK/t"; cp -a "$GOLDEN/glm-nvfp4-mini/expected/tp1" "$WORK/t"; chmod -R u+w "$WORK/t"
(cd "$WORK/t/planescache/v2" && mkdir -p 0123/tp3-rank0 4567/tp1-rank0 && : >89ab && ln -s /nowhere cdef)
: >"$RANK/layer9999999999.sc2.bin"
sed 's/"world": 1/"world": 3/' "$RANK/meta.json" >"$WORK/t/planescache/v2/0123/tp3-rank0/meta.json"
echo '[[[[' >"$WORK/t/planescache/v2/4567/tp1-rank0/meta.json"
# A sanitizer reserves terabytes of addresses.
([ -n "${SANITIZED:-}" ] || ulimit -v 1000000; expect 0 list; exit $failures) || fail "a strange store"
expect 0 list
says 'layer9999999999\.sc2\.bin: no model has such a layer; ignored'
prints "^'golden-glm-nvfp4-mini' \(world 1, zero mode auto\): complete, as far as"
expect 0 verify-ckpt-id list --planescache "$WORK/t/planescache" --config "$GOLDEN/glm-nvfp4-mini/checkpoint"
prints "^'golden-glm-nvfp4-mini' \(world 1, zero mode auto\): complete$"
expect 1 verify-ckpt-id rekey --planescache "$WORK/t/planescache" --from golden-glm-nvfp4-mini --to x
says 'its identity is unknown'
expect 0 verify-ckpt-id prune --planescache "$WORK/t/planescache" --keep golden-glm-nvfp4-mini --force
expect 0 verify-ckpt-id list --planescache "$WORK/t/planescache"
prints "^'golden-glm-nvfp4-mini' \(world 1, zero mode auto\): complete, as far as"
finish
