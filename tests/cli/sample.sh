# verify-ckpt-id check --sample and --all: content against the checkpoint; the printed command repairs; the manifests give
# the geometry and follow when the identity changes.
source "$(dirname "$0")/common.sh"
MODEL=$GOLDEN/glm-fp8-mini/checkpoint
ROOT=$WORK/cache STORE=$WORK/store
expect 0 build-planescache "$MODEL" --out "$ROOT" --store "$STORE" --tiers base,fp4 --world 2 --ckpt-id "it's mine" -q
check() { verify-ckpt-id check --planescache "$ROOT" --store "$STORE" "$@"; }

expect 0 check
prints 'from manifest .*/manifest\.json$'
expect 0 check --print-env
eval "$(cat "$WORK/out")"; [ "$VLLM_MOE_W2_CKPT_ID" = "it's mine" ] || fail "print-env gave $VLLM_MOE_W2_CKPT_ID"
expect 0 check --checkpoint "$MODEL" --all
prints '^4 experts \([0-9.]+ MiB \([0-9]+ bytes\)\) compared with the checkpoint'
prints 'all equal$'
expect 0 check --checkpoint "$MODEL" --sample 2 --seed 5 --json
python3 -c 'import json, sys; c = json.load(open(sys.argv[1]))["content"]; assert (c["experts"], c["seed"], c["differences"]) == (2, 5, [])' \
  "$WORK/out" || fail "--sample --json"
expect 2 check --all
expect 2 check --checkpoint "$MODEL" --seed 5
expect 2 check --checkpoint "$MODEL" --all --sample 3

# One byte of one part of rank 1, and one of a pack of rank 0.
flip() { printf "\\x$(printf %02x $(($(od -An -tu1 -j "$2" -N 1 "$1") ^ 0x40)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }
PART=$(echo "$ROOT"/v2/*/tp2-rank1/layer2.fp13.bin) PACK=$(echo "$STORE"/base.*.rank0of2.pack)
flip "$PART" 1000
flip "$PACK" 3
expect 0 check
expect 3 check --checkpoint "$MODEL" --all --json
python3 - "$WORK/out" "$WORK" <<'EOF' || fail "--all --json"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["hit"] and "environment" not in d
one, two = sorted(d["content"]["differences"], key=lambda x: x["rank"])
assert one["offset"] == 3 and one["section"] == "planes13" and one["layer"] == 1, one
assert two["offset"] == 1000 and two["section"] == "fp13" and two["layer"] == 2 and two["rank"] == 1, two
for x in (one, two):
    assert ".experts." in x["tensor"] and x["found"] != x["expected"], x
    open(sys.argv[2] + "/repair%d" % x["rank"], "w").write(x["repair"])
EOF
expect 3 check --checkpoint "$MODEL" --all
prints "^DIFFERS  .*layer2\.fp13\.bin, byte 1000: layer 2, expert 0, rank 1, fp13: tensor '.*_proj\.weight', row [0-9]+, column [0-9]+: found nibble .*, expected nibble "
prints '^  repair: build-planescache .* --layers 2 --force$'
expect 3 check --checkpoint "$MODEL" --all --print-env
[ "$(cat "$WORK/out")" = false ] || fail "print-env printed $(cat "$WORK/out") although the content differs"
expect 0 bash "$WORK/repair0"
expect 0 bash "$WORK/repair1"
expect 0 check --checkpoint "$MODEL" --all

# The manifests follow the identity.
expect 0 verify-ckpt-id rekey --from "it's mine" --to other --planescache "$ROOT" --store "$STORE"
expect 0 check --ckpt-id other
prints 'from manifest '
for manifest in "$ROOT"/v2/*/*/manifest.json "$STORE"/*.manifest.json; do expect 0 verify-ckpt-id verify "$manifest"; done
expect 0 build-planescache "$MODEL" --out "$WORK/direct" --store "$WORK/direct-store" --tiers base,fp4 --world 2 --ckpt-id other -q
diff -r "$ROOT" "$WORK/direct" || fail "a rekeyed cache differs from one built under that identity"
diff -r "$STORE" "$WORK/direct-store" || fail "rekeyed packs differ from those built under that identity"
finish
