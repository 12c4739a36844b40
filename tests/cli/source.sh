# The source of a cache is recorded, and no build continues with another checkpoint (docs/FORMAT.md, section 10).
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is needed to make checkpoints"
cd "$WORK" || exit 1
A=$GOLDEN/ds4-mini/checkpoint

# change FROM TO WHAT: a copy of a checkpoint in which that is different.
change() {
  cp -r "$1" "$2" && chmod -R u+w "$2" && python3 - "$2" "$3" <<'END'
import glob, json, os, struct, sys
directory, what = sys.argv[1:]
def load(path):
    data = open(path, "rb").read(); n = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + n]), bytearray(data[8 + n:])
def save(path, header, data):
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
index = directory + "/model.safetensors.index.json"
if what == "experts":  # every weight of every expert
    for path in sorted(glob.glob(directory + "/*.safetensors")):
        header, data = load(path)
        for name, tensor in header.items():
            if ".experts." in name and name.endswith(".weight"):
                a, b = tensor["data_offsets"]
                data[a:b] = bytes(x ^ 0x11 for x in data[a:b])
        save(path, header, data)
elif what == "drafter":  # a shard of its own with a drafter's experts
    save(directory + "/model-drafter.safetensors",
         {"mtp.0.ffn.experts.0.w1.weight": {"dtype": "U8", "shape": [16], "data_offsets": [0, 16]}}, bytes(16))
    listed = json.load(open(index)); listed["weight_map"]["mtp.0.ffn.experts.0.w1.weight"] = "model-drafter.safetensors"
    json.dump(listed, open(index, "w"))
elif what == "small":  # config, tokenizer, index
    config = json.load(open(directory + "/config.json")); config["edited"] = 1
    json.dump(config, open(directory + "/config.json", "w"), indent=3)
    open(directory + "/tokenizer.json", "w").write('{"another": true}')
    os.utime(index)
END
}
change "$A" B experts; change "$A" small small; change "$A" grafted drafter
look() { find "$1" -type f -printf '%p ' -exec sha256sum {} + | sort; }

# The definition, computed independently.
expect 0 build-planescache "$A" -o CA --store SA --ckpt-id prod -q
python3 - "$A" "$(echo CA/v2/*/tp1-rank0/manifest.json)" <<'END' || fail "the fingerprint is not what FORMAT.md says"
import glob, hashlib, json, struct, sys
out = hashlib.sha256(b"planesmith-source-v1\0")
for path in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    data = open(path, "rb").read(); n = struct.unpack("<Q", data[:8])[0]
    if not any(".ffn.experts." in name and not name.startswith("mtp.") for name in json.loads(data[8:8 + n])): continue
    body = data[8 + n:]; m = len(body)
    sample = body if m <= 64 * 4096 else b"".join(body[i * (m - 4096) // 63:][:4096] for i in range(64))
    out.update(struct.pack("<Q", len(data)) + hashlib.sha256(data[:8 + n]).digest() + hashlib.sha256(sample).digest())
sys.exit(json.load(open(sys.argv[2]))["source"] != out.hexdigest())
END
for pack in SA/*.pack; do
  [ "$(grep -o '"source": "[0-9a-f]*"' "$pack.manifest.json")" = "$(grep -o '"source": "[0-9a-f]*"' CA/v2/*/tp1-rank0/manifest.json)" ] || fail "$pack: another source"
done

# --- 1: a cache of A, served with B ---
for more in "" "--sample 3" "--all" --print-env; do
  expect 3 verify-ckpt-id check --planescache CA --checkpoint B $more
  cat "$WORK/out" "$WORK/err" >both
  grep -q 'this cache was made from another checkpoint' both || fail "not said: check --checkpoint B $more"
  grep -q 'force\|export' both && fail "repairs or an environment are offered: $more"
done
expect 3 verify-ckpt-id check --planescache CA --store SA --checkpoint B --json && prints '"hit": false' && prints '"other"'
for checkpoint in "$A" small grafted; do expect 0 verify-ckpt-id check --planescache CA --store SA --checkpoint "$checkpoint" --sample 2; done

# If no source is recorded (the engine made the cache, or it is old), a sample of the content decides.
cp -r CA engine; rm engine/v2/*/tp1-rank0/manifest.json
expect 3 verify-ckpt-id check --planescache engine --checkpoint B
prints 'this cache was made from another checkpoint'
grep -q 'repair:\|--force' "$WORK/out" && fail "repairs are offered"
expect 0 verify-ckpt-id check --planescache engine --checkpoint "$A"

# The commands that were advised once: refused, and nothing changes.
look CA >before
for layer in 0 1; do
  expect 2 build-planescache B --out CA --fp4 nibble --ckpt-id prod --layers $layer --force
  says 'made from another checkpoint: its source is [0-9a-f]{64}, this checkpoint.s is [0-9a-f]{64}'
  expect 2 build-fp4-packs B --out SA --tiers base --ckpt-id prod --layers $layer --force
done
expect 2 build-planescache B -o CA --ckpt-id prod -n
expect 2 build-planescache B -o CA --ckpt-id prod --json && prints '"code": "other-source"'
look CA >after; same before after

# --- 2: one cache of two models ---
expect 0 build-planescache "$A" -o two --store two/s --ckpt-id prod --layers 0 -q
for store in "--store two/s" ""; do
  expect 2 build-planescache B -o two $store --ckpt-id prod
  says 'from another checkpoint'
done
expect 2 build-fp4-packs B -o two/s --ckpt-id prod
expect 0 build-planescache small -o two --store two/s --ckpt-id prod
prints '^complete  all layers'
expect 0 verify-ckpt-id verify two
expect 0 verify-ckpt-id check --planescache two --store two/s --checkpoint "$A" --all
# Packs from a cache keep its source, and meet no other.
expect 0 build-fp4-packs --from-planescache CA --out from -q
expect 0 build-planescache B -o CB --ckpt-id prod -q
expect 2 build-fp4-packs --from-planescache CB --out from && says 'from another checkpoint'
expect 3 verify-ckpt-id check --planescache CB --store from && prints 'different checkpoints'
# A killed build that wrote nothing yet blocks no other run.
mkdir -p killed/v2; expect 0 build-planescache "$A" -o killed --ckpt-id k -n
directory=killed/$(cd CB && echo v2/*/tp1-rank0); mkdir -p "$directory/.planesmith"; printf %064d 0 >"$directory/.planesmith/source"
expect 0 build-planescache B -o killed --ckpt-id prod -q
# Another identity keeps it.
cp -r CA renamed; expect 0 verify-ckpt-id rekey --from prod --to other --planescache renamed
expect 3 verify-ckpt-id check --planescache renamed --checkpoint B

# --- audit ---
expect 3 verify-ckpt-id audit B --against-cache CA && prints 'cache.source'
verify-ckpt-id audit "$A" --against-cache CA 2>&1 | grep -q 'cache.source' && fail "the right checkpoint is blamed"
finish
