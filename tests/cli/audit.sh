# verify-ckpt-id audit: each fault alone, in a copy of a small checkpoint, is found under its code; a sound one has none.
source "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is needed to break checkpoints"
cd "$WORK" || exit 1
for model in ds4-mini glm-fp8-mini glm-nvfp4-mini; do
  expect 0 verify-ckpt-id audit "$GOLDEN/$model/checkpoint"
  prints ' 0 errors'
done

cat >break.py <<'EOF'
import json, os, struct, sys

class Shard:
    def __init__(self, path):
        self.path, raw = path, open(path, "rb").read()
        n = struct.unpack("<Q", raw[:8])[0]
        self.header, self.data = json.loads(raw[8:8 + n]), raw[8 + n:]
    def tensors(self):
        return {k: v for k, v in self.header.items() if k != "__metadata__"}
    def bytes(self, name):
        a, b = self.header[name]["data_offsets"]
        return bytearray(self.data[a:b])
    def save(self, drop=(), rename={}, change={}, dtype={}):
        out, data = {}, b""
        for name, t in sorted(self.tensors().items(), key=lambda i: i[1]["data_offsets"]):
            if name in drop: continue
            new = bytes(change.get(name, self.bytes(name)))
            out[rename.get(name, name)] = {"dtype": dtype.get(name, t["dtype"]), "shape": t["shape"],
                                           "data_offsets": [len(data), len(data) + len(new)]}
            data += new
        text = json.dumps(out).encode()
        open(self.path, "wb").write(struct.pack("<Q", len(text)) + text + data)

what, folder = sys.argv[1], sys.argv[2]
path = lambda name: os.path.join(folder, name)
index = json.load(open(path("model.safetensors.index.json")))
config = json.load(open(path("config.json")))
where = index["weight_map"]
shard_of = lambda name: Shard(path(where[name]))
def first(*parts):
    return sorted(n for n in where if all(p in n for p in parts) and "mtp" not in n and "layers.%d" % config["num_hidden_layers"] not in n)[0]
def put(name, value): json.dump(value, open(path(name), "w"))
def put_index(): put("model.safetensors.index.json", index)
def quantization(**more):
    config["quantization_config"].update(more); put("config.json", config)

if what == "absent": where["no.such.tensor"] = sorted(set(where.values()))[0]; put_index()
elif what == "elsewhere":
    name = first("embed"); where[name] = [s for s in sorted(set(where.values())) if s != where[name]][0]; put_index()
elif what == "unlisted": del where[first("embed")]; put_index()
elif what == "total": index.setdefault("metadata", {})["total_size"] = 1; put_index()
elif what == "lfs": open(path(where[first("embed")]), "w").write("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n")
elif what == "missing": os.remove(path(where[first("embed")]))
elif what == "twice":
    os.link(path(where[first("embed")]), path("model-extra.safetensors"))
elif what == "fused":
    name = first("embed"); s = shard_of(name); s.header[name]["shape"] = [1] + s.header[name]["shape"]
    s.save(rename={name: "layers.0.ffn.experts.gate_up_proj"})
    where["layers.0.ffn.experts.gate_up_proj"] = where.pop(name); put_index()
elif what == "scale-missing":
    name = first("experts.0", ".scale"); shard_of(name).save(drop=[name]); del where[name]; put_index()
elif what == "nan":
    name = first("experts.0.w1.scale"); s = shard_of(name); b = s.bytes(name); b[5] = 255; s.save(change={name: b})
elif what == "scale2":
    name = first("experts.0", "gate_proj.weight_scale_2"); s = shard_of(name); s.save(change={name: struct.pack("<f", 7.0)})
elif what == "scale-zero":
    name = first("experts.0", "gate_proj.weight_scale"); s = shard_of(name); b = s.bytes(name); b[0] = 0; s.save(change={name: b})
elif what == "scale-subnormal":
    name = first("experts.0", "gate_proj.weight_scale"); s = shard_of(name); b = s.bytes(name); b[0] = 3; s.save(change={name: b})
elif what == "zeros":
    name = first("layers.0", "experts.0.w1.weight"); s = shard_of(name); b = s.bytes(name)
    fix = lambda n: 0 if n == 8 else n
    s.save(change={name: bytes(fix(x & 15) | fix(x >> 4) << 4 for x in b)})
elif what == "mixed":
    name = first("layers.1", "experts.0.w1.weight"); shard_of(name).save(dtype={name: "F8_E4M3"})
elif what == "mtp-count": config["num_nextn_predict_layers"] = 4; put("config.json", config)
elif what == "mtp-ignore":
    name = [n for n in where if "mtp" in n and n.endswith("w1.weight")][0]; s = shard_of(name)
    s.header[name]["shape"][1] //= 2; s.save(dtype={name: "BF16"}); quantization(ignore=["embed"])
elif what == "ignore": quantization(ignore=["re:^mtp.*", "no_such_module"])
elif what == "bad-pattern": quantization(ignore=["re:^mtp.*", "re:(("])
elif what == "router":
    name = first("ffn.gate.weight"); s = shard_of(name); t = s.tensors()[name]
    width = len(s.bytes(name)) // (t["shape"][0] * t["shape"][1])
    s.header[name]["shape"] = [t["shape"][0], t["shape"][1] * width]; s.save(dtype={name: "U8"})
elif what == "overlap": quantization(config_groups={"a": {"targets": ["Linear"]}, "b": {"targets": ["re:.*experts.*"]}})
elif what == "unmatched": quantization(config_groups={"a": {"targets": ["Linear"]}, "b": {"targets": ["re:^nothing$"]}})
elif what == "uncovered": quantization(config_groups={"a": {"targets": ["re:.*experts.*"]}}, ignore=["re:^mtp.*"])
elif what == "activations":
    quantization(config_groups={"a": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float"},
                                      "input_activations": {"num_bits": 8, "type": "float"}}})
elif what == "truncation": put("tokenizer.json", {"truncation": {"max_length": 512}})
elif what == "padding": put("tokenizer.json", {"padding": {"length": 512}})
elif what == "vision":
    name = first("embed"); shard_of(name).save(rename={name: "vision_tower.patch.weight"})
    where["vision_tower.patch.weight"] = where.pop(name); put_index()
elif what == "config": os.remove(path("config.json"))
elif what == "changed":
    name = first("embed"); s = shard_of(name); b = s.bytes(name); b[0] ^= 1; s.save(change={name: b})
elif what == "repacked":
    name = first("experts.0.w1.weight"); s = shard_of(name); b = s.bytes(name); b[0] ^= 1; s.save(change={name: b})
elif what == "mtp-lost":
    for name in [n for n in where if "mtp" in n]:
        shard_of(name).save(drop=[name]); del where[name]
    put_index()
elif what == "tokenizer": os.remove(path("tokenizer.json"))
else: sys.exit("no such fault: " + what)
EOF

# fault  model  code  exit status
rows=0
while read -r fault model code status; do
  rows=$((rows + 1)); rm -rf ck; cp -r "$GOLDEN/$model/checkpoint" ck; chmod -R u+w ck
  python3 break.py "$fault" ck || { fail "cannot break it: $fault"; continue; }
  expect "$status" verify-ckpt-id audit ck --against "$GOLDEN/$model/checkpoint" -q || echo "    ($fault)"
  grep -q "^[a-z]* *$code: " out || { fail "$fault: no finding $code"; cat out; }
done <<'EOF'
absent ds4-mini index.absent 3
elsewhere ds4-mini index.elsewhere 3
unlisted ds4-mini index.unlisted 0
total ds4-mini index.total-size 0
lfs ds4-mini shards.unreadable 3
missing ds4-mini shards.unreadable 3
twice ds4-mini shards.twice 3
twice ds4-mini index.extra-shard 3
fused ds4-mini experts.fused 3
scale-missing ds4-mini experts.refused 3
nan ds4-mini experts.scale-nonfinite 3
scale2 glm-nvfp4-mini experts.gate-up-scale 0
scale-zero glm-nvfp4-mini experts.scale-zero 0
scale-subnormal glm-nvfp4-mini experts.scale-subnormal 0
zeros ds4-mini experts.one-signed-zeros 0
mixed ds4-mini experts.mixed-dtypes 3
mtp-count ds4-mini mtp.count 3
mtp-ignore ds4-mini mtp.not-ignored 3
ignore ds4-mini recipe.ignore-unmatched 0
bad-pattern ds4-mini recipe.bad-pattern 0
router ds4-mini recipe.sensitive-quantized 3
overlap ds4-mini recipe.group-overlap 0
unmatched ds4-mini recipe.group-unmatched 0
uncovered ds4-mini recipe.uncovered 0
activations ds4-mini recipe.activations 0
truncation ds4-mini tokenizer.truncation 3
padding ds4-mini tokenizer.padding 3
vision ds4-mini vision.processor 3
config ds4-mini config.missing 3
changed ds4-mini against.changed 3
mtp-lost ds4-mini against.mtp-lost 3
tokenizer ds4-mini tokenizer.missing 3
EOF
echo "$rows faults, each alone"

# --- repacked experts are harmless to the rest; worlds and profiles ---
rm -rf ck; cp -r "$GOLDEN/ds4-mini/checkpoint" ck; python3 break.py repacked ck
expect 0 verify-ckpt-id audit ck --against "$GOLDEN/ds4-mini/checkpoint"
prints 'tensors outside the routed experts equal the source'
expect 3 verify-ckpt-id audit ck --world 4; prints 'serving.world'
echo '{"name": "small", "geometry": {"layers": 2, "experts": 4, "hidden": 192, "intermediate": 128}}' >p.json
expect 3 verify-ckpt-id audit ck --profile p.json
prints 'profile.geometry: the number of routed experts is 3, profile small has 4'
expect 0 verify-ckpt-id audit ck --json; python3 -c 'import json; json.load(open("out"))' || fail "not one JSON document"
expect 1 verify-ckpt-id audit nowhere
expect 2 verify-ckpt-id audit
finish
