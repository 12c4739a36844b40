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
[ "$(cat "$WORK/out")" = "export VLLM_MOE_W2_CKPT_ID='new id'" ] || fail "print-env"
[ "$(find "$WORK/t" -type f | wc -l)" = "$(find "$MODEL/expected/tp1" -type f | wc -l)" ] || fail "files left over"

expect 0 rekey --from golden-glm-nvfp4-mini --to 'new id' --json
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["moved"] == [] and len(d["already"]) == 4' \
  "$WORK/out" || fail "the second run"
expect 0 rekey --from 'new id' --to golden-glm-nvfp4-mini
diff -r "$WORK/t" "$MODEL/expected/tp1" || fail "there and back is not where it was"

# Both at once, or one after the other.
expect 0 verify-ckpt-id rekey --from golden-glm-nvfp4-mini --to b --store "$WORK/t/store"
expect 0 rekey --from golden-glm-nvfp4-mini --to b
prints '\.rank0of1 has the new identity already$'
expect 0 check --ckpt-id b
finish
