# verify-ckpt-id rekey: another identity, found by the engine's probe, without copying; refusals; a second run.
source "$(dirname "$0")/common.sh"
MODEL=$GOLDEN/glm-nvfp4-mini
cp -a "$MODEL/expected/tp1" "$WORK/t"
rekey() { verify-ckpt-id rekey --planescache "$WORK/t/planescache" --store "$WORK/t/store" "$@"; }
check() { verify-ckpt-id check --planescache "$WORK/t/planescache" --store "$WORK/t/store" --config "$MODEL/checkpoint" "$@"; }
inodes() { find "$WORK/t" \( -name '*.bin' -o -name '*.pack' \) -printf '%i %s\n' | sort; }

inodes >"$WORK/before"
expect 0 rekey --from golden-glm-nvfp4-mini --to 'new id' --dry-run
prints '^would rename .*/v2/[0-9a-f]{20}/tp1-rank0 -> .*/v2/[0-9a-f]{20}/tp1-rank0$'
diff -r "$WORK/t" "$MODEL/expected/tp1" || fail "a dry run changed something"

expect 1 rekey --from golden-glm --to x
says "nothing here has the identity 'golden-glm'; found: 'golden-glm-nvfp4-mini' \(world 1, zero mode auto\)"
expect 2 rekey --from a --to a
expect 2 verify-ckpt-id rekey --from a --to b
diff -r "$WORK/t" "$MODEL/expected/tp1" || fail "a refusal changed something"

expect 0 rekey --from golden-glm-nvfp4-mini --to 'new id'
inodes >"$WORK/after"
same "$WORK/before" "$WORK/after"
expect 0 check --ckpt-id 'new id'
expect 3 check --ckpt-id golden-glm-nvfp4-mini
expect 0 check --print-env
prints "^export VLLM_MOE_W2_CKPT_ID='new id'$"
[ "$(find "$WORK/t" -type f | wc -l)" = "$(find "$MODEL/expected/tp1" -type f | wc -l)" ] || fail "files left over"

expect 0 rekey --from golden-glm-nvfp4-mini --to 'new id' --json
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["moved"] == [] and len(d["already"]) == 4' \
  "$WORK/out" || fail "the second run"
expect 0 rekey --from 'new id' --to golden-glm-nvfp4-mini
diff -r "$WORK/t" "$MODEL/expected/tp1" || fail "there and back is not where it was"

# Heat files go along, show in the list and go with prune; the pool's is of no identity.
heat() { echo "$WORK"/t/store/delta.*.pack.heat.json; }
touch_heat() {
  pack=$(echo "$WORK"/t/store/delta.*.pack) && echo '{"version": 1, "keys": [[0, 1]]}' >"$pack.heat.json"
  echo '{"owners": []}' >"$WORK/t/store/pool-heat.delta.rank0of1.json"
}
touch_heat; before=$(heat)
expect 0 rekey --from golden-glm-nvfp4-mini --to 'new id'
[ -e "$(heat)" ] && [ "$(heat)" != "$before" ] && [ ! -e "$before" ] || fail "the heat file did not go along"
expect 0 verify-ckpt-id list --planescache "$WORK/t/planescache" --store "$WORK/t/store"
prints 'delta\..*, with its heat file'; prints '^heat of the delta pool, rank 0 of 1: .*pool-heat.delta.rank0of1.json$'
expect 0 rekey --from 'new id' --to golden-glm-nvfp4-mini
[ "$before" = "$(heat)" ] || fail "the heat file did not come back"
cp -a "$WORK/t" "$WORK/pruned"; cp -a "$GOLDEN"/ds4-mini/expected/tp1/planescache/v2/* "$WORK/pruned/planescache/v2"
expect 0 verify-ckpt-id prune --keep golden-ds4-mini --planescache "$WORK/pruned/planescache" --store "$WORK/pruned/store" --force
[ -z "$(ls -A "$WORK/pruned/store")" ] || fail "prune left $(ls -A "$WORK/pruned/store")"
rm "$(heat)" "$WORK/t/store/pool-heat.delta.rank0of1.json"
diff -r "$WORK/t" "$MODEL/expected/tp1" || fail "heat files left something"

# Both at once, or one after the other.
expect 0 verify-ckpt-id rekey --from golden-glm-nvfp4-mini --to b --store "$WORK/t/store"
expect 0 rekey --from golden-glm-nvfp4-mini --to b
prints '\.rank0of1 has the new identity already$'
expect 0 check --ckpt-id b
finish
