# verify-ckpt-id check: hits, misses with their reasons, exit status, output for people, pipelines and shells.
source "$(dirname "$0")/common.sh"
MODEL=$GOLDEN/glm-nvfp4-mini
fresh() { rm -rf "$WORK/t"; cp -a "$MODEL/expected/tp1" "$WORK/t"; RANK=$(echo "$WORK"/t/planescache/v2/*/tp1-rank0); }
check() { verify-ckpt-id check --planescache "$WORK/t/planescache" --store "$WORK/t/store" "$@"; }
with() { check --config "$MODEL/checkpoint" "$@"; }
fresh

# --- hits ---
expect 0 with
prints '^identity golden-glm-nvfp4-mini, world 1, zero mode auto$'
prints '^3 layers, 2 of them sparse, 3 experts, hidden 192, intermediate 128, from config '
prints '^planes cache, rank 0 of 1, FP4 nibble: .*/tp1-rank0$'
prints '^  hit   layers 1-2, 6 parts each$'
prints '^delta pack, rank 0 of 1 \(FP4 planes, opened where the 2-bit planes live on the GPU\): .*\.pack$'
prints '^the engine would boot from this'
expect 0 check --checkpoint "$MODEL/checkpoint"
prints 'from checkpoint '
expect 0 with --ckpt-id golden-glm-nvfp4-mini --world 1 --rank 0 --zero-mode auto --fp4 none --tiers base,fp4
prints '4 parts each'
expect 0 verify-ckpt-id check --store "$WORK/t/store" --config "$MODEL/checkpoint/config.json"
expect 0 verify-ckpt-id check --planescache "$WORK/t/planescache" --config "$MODEL/checkpoint/config.json"

# --- the geometry ---
expect 2 check
says 'give --config, --profile or --checkpoint'
cat >"$WORK/glm.json" <<'EOF'
{"name": "glm-mini", "geometry": {"layers": 3, "experts": 3, "hidden": 192, "intermediate": 128, "first_dense": 1}}
EOF
expect 0 check --profile "$WORK/glm.json"
prints 'from profile glm-mini$'
PLANESMITH_PROFILES=$WORK expect 0 check --profile glm
PLANESMITH_PROFILES=$WORK expect 2 check --profile glum
says "glum: is not a profile, neither a file nor one of .*glm"

# --- for shells and pipelines ---
expect 0 with --print-env
cat >"$WORK/wanted" <<EOF
export VLLM_MOE_W2=1
export VLLM_MOE_W2_CKPT_ID=golden-glm-nvfp4-mini
export VLLM_MOE_W2_PLANES_CACHE=$WORK/t/planescache
export VLLM_MOE_W2_STORE_DIR=$WORK/t/store
EOF
same "$WORK/wanted" "$WORK/out"
[ -s "$WORK/err" ] && fail "print-env said something: $(cat "$WORK/err")"
eval "$(cat "$WORK/out")"; [ "$VLLM_MOE_W2_CKPT_ID" = golden-glm-nvfp4-mini ] || fail "the export line cannot be used"
expect 0 with --json
python3 - "$WORK/out" <<'EOF' || fail "--json of a hit"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["hit"] and d["environment"]["VLLM_MOE_W2_CKPT_ID"] == "golden-glm-nvfp4-mini" and d["mode"] == "resident"
assert [l["layer"] for l in d["planescache"][0]["layers"]] == [1, 2]
assert all(p["hit"] for l in d["planescache"][0]["layers"] for p in l["parts"])
assert sorted(p["tier"] for p in d["packs"]) == ["base", "delta", "fp4"]
assert d["geometry"]["sparse_layers"] == [1, 2]
EOF
expect 2 with --print-env --json

# --- misses ---
truncate -s -4 "$RANK/layer2.sc2.bin"
expect 3 with
prints '^  MISS  layer 2, sc2: layer2\.sc2\.bin is 4 bytes short: '
prints '^  hit   layers 1, 6 parts each$'
prints '^the engine would NOT boot from this'
expect 3 with --print-env
[ "$(cat "$WORK/out")" = false ] || fail "print-env printed $(cat "$WORK/out") on a miss"
says '^  MISS  layer 2, sc2: '
says 'MISS  layer 2, sc2'
expect 3 with --json
python3 - "$WORK/out" <<'EOF' || fail "--json of a miss"
import json, sys
d = json.load(open(sys.argv[1]))
assert not d["hit"] and "environment" not in d
bad = [p for l in d["planescache"][0]["layers"] for p in l["parts"] if not p["hit"]]
assert [(p["file"], p["reason"].split(":")[0]) for p in bad] == [("layer2.sc2.bin", "is 4 bytes short")]
EOF

fresh
rm "$WORK"/t/store/fp4.*.json
expect 3 with --tiers base,delta,fp4
prints '^  MISS  the sidecar is missing$'
prints 'warning: at its first start the engine would replace .*/fp4\..* by an empty pack'
[ -e "$(echo "$WORK"/t/store/fp4.*.pack)" ] || fail "the pack was touched"

fresh
expect 3 with --zero-mode alt
prints 'differs in zero_mode: cache has "auto", engine would ask "alt"'
prints "^  'golden-glm-nvfp4-mini' \(world 1, zero mode auto\)$"
expect 3 check --ckpt-id other
prints 'it would match only with the pin VLLM_MOE_W2_CKPT_ID=golden-glm-nvfp4-mini'
expect 3 check --checkpoint "$MODEL/checkpoint" --served-path /model --json
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert len(d["ckpt_id"]) == 64 and d["found"]' "$WORK/out" ||
  fail "--served-path"
expect 3 with --world 2 --rank 1
expect 1 verify-ckpt-id check --planescache "$WORK/nowhere"
says 'there is no such directory'

# --- several identities ---
mkdir -p "$WORK/t/planescache/v2" && cp -a "$GOLDEN"/ds4-mini/expected/tp1/planescache/v2/* "$WORK/t/planescache/v2"
expect 2 with
says "several identities are there: 'golden-ds4-mini' .*'golden-glm-nvfp4-mini' .*--ckpt-id"
[ -s "$WORK/out" ] && fail "usage errors go to stderr"
expect 0 with --ckpt-id golden-glm-nvfp4-mini

# --- wrong use ---
expect 2 verify-ckpt-id check
expect 2 with --zero-mode odd
expect 2 with --fp4 some
expect 2 with --tiers base,fp5
expect 2 with --rank one
expect 2 with --ckpt-id a --served-path b

# --- a read-only tree stays as it is ---
fresh
listing() { (cd "$WORK/t" && find . -printf '%p %i %m %n %s %T@ %C@\n' | sort; find . -type f -exec sha256sum {} + | sort); }
chmod -R a-w "$WORK/t"
listing >"$WORK/before"
with >"$WORK/out" 2>&1; verify-ckpt-id list --planescache "$WORK/t/planescache" --store "$WORK/t/store" >/dev/null
check --ckpt-id other >/dev/null 2>&1
listing >"$WORK/after"
same "$WORK/before" "$WORK/after"
if [ "$(id -u)" != 0 ]; then grep -q 'MISS  the pack is not writable' "$WORK/out" || fail "read-only packs were accepted"; fi
chmod -R u+w "$WORK/t"

# --- nor can anything be written where the file system forbids it ---
if [ "$(id -u)" = 0 ] && mount --bind "$WORK/t" "$WORK/t" 2>/dev/null; then
  trap 'umount "$WORK/t" 2>/dev/null; rm -rf "$WORK"' EXIT
  mount -o remount,ro,bind "$WORK/t"
  listing >"$WORK/before"
  expect 3 with
  [ "$(grep -c 'MISS  the pack is not writable' "$WORK/out")" = 3 ] || fail "packs on a read-only file system: $(cat "$WORK/out")"
  prints '^  hit   layers 1-2, 6 parts each$'  # the engine only reads these
  (cd "$WORK/t" && find . -type f -print0 | xargs -0 sha256sum) >"$WORK/sums"
  expect 0 verify-ckpt-id verify "$WORK/sums" --root "$WORK/t"
  expect 0 verify-ckpt-id list --planescache "$WORK/t/planescache" --store "$WORK/t/store"
  listing >"$WORK/after"
  same "$WORK/before" "$WORK/after"
  umount "$WORK/t"
else
  echo "note: nothing can be mounted here, no test of a read-only file system"
fi
finish
