# verify-ckpt-id audit: each fault alone, in a copy of a small checkpoint, is found under a code that the sound one lacks.
source "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is needed to break checkpoints"
cd "$WORK" || exit 1
models="ds4-mini glm-fp8-mini glm-nvfp4-mini mxfp4 nvfp4 kimi"
for family in mxfp4 nvfp4 kimi; do
  make-checkpoint -q -o $family --family $family --layers 2 --experts 2 --hidden 128 --intermediate 64 --shards 2 >/dev/null
done
echo '{}' >kimi/preprocessor_config.json
for model in $models; do
  [ -e $model ] || cp -r "$GOLDEN/$model/checkpoint" $model
  chmod -R u+w $model
  [ -e $model/tokenizer.json ] || echo '{}' >$model/tokenizer.json
  expect 0 verify-ckpt-id audit $model
  prints ' 0 errors'
  cp out sound.$model
done
# DeepSeek-V4's config.json says fp8, which its experts are not.
expect 0 verify-ckpt-id audit ds4-mini
prints '^note +experts.layout: its experts are MXFP4 beside FP8 in blocks \(fp8\)'
cp -r ds4-mini f4 && python3 - <<'EOF'
import glob, json, struct
for path in glob.glob("f4/*.safetensors"):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + n])
    for name, t in header.items():
        if ".experts." in name and t["dtype"] == "I8": t.update(dtype="F4", shape=[t["shape"][0], 2 * t["shape"][1]])
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + raw[8 + n:])
EOF
expect 0 verify-ckpt-id audit f4
prints '^note +experts.layout: its experts are MXFP4 beside FP8 in blocks \(fp8\)'

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

what, directory = sys.argv[1], sys.argv[2]
path = lambda name: os.path.join(directory, name)
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
elif what == "truncated": os.truncate(path(where[first("embed")]), os.path.getsize(path(where[first("embed")])) - 1)
elif what == "bad-index": open(path("model.safetensors.index.json"), "w").write("{")
elif what == "bad-config": open(path("config.json"), "w").write("{")
elif what == "twice":
    os.link(path(where[first("embed")]), path("model-extra.safetensors"))
elif what == "fused":
    name = first("embed"); s = shard_of(name); s.header[name]["shape"] = [1] + s.header[name]["shape"]
    s.save(rename={name: "layers.0.ffn.experts.gate_up_proj"})
    where["layers.0.ffn.experts.gate_up_proj"] = where.pop(name); put_index()
elif what == "scale-missing":
    name = next(n for n in sorted(where) if "experts.0." in n and n.endswith((".scale", ".weight_scale")) and "mtp" not in n); shard_of(name).save(drop=[name]); del where[name]; put_index()
elif what == "expert-missing":
    for name in [n for n in where if "layers.1." in n and "experts.1." in n and "shared" not in n]:
        shard_of(name).save(drop=[name]); del where[name]
    put_index()
elif what == "layer-missing":
    for name in [n for n in where if "layers.1." in n and "experts" in n and "shared" not in n and "mtp" not in n]:
        shard_of(name).save(drop=[name]); del where[name]
    put_index()
elif what == "infinite":
    name = first("experts.0", "weight_scale_inv"); s = shard_of(name); b = s.bytes(name); b[0:4] = struct.pack("<f", float("inf")); s.save(change={name: b})
elif what == "subnormal":
    name = first("experts.0", "weight_scale_inv"); s = shard_of(name); b = s.bytes(name); b[0:4] = struct.pack("<f", 1e-40); s.save(change={name: b})
elif what == "scale2-infinite":
    name = first("experts.0", "gate_proj.weight_scale_2"); s = shard_of(name); s.save(change={name: struct.pack("<f", float("inf"))})
elif what == "scale2-zero":
    name = first("experts.0", "gate_proj.weight_scale_2"); s = shard_of(name); s.save(change={name: struct.pack("<f", 0.0)})
elif what == "e8m0-smallest":
    name = first("experts.0.w1.scale"); s = shard_of(name); b = s.bytes(name); b[0] = 0; s.save(change={name: b})
elif what == "nan":
    name = first("experts.0.w1.scale"); s = shard_of(name); b = s.bytes(name); b[5] = 255; s.save(change={name: b})
elif what == "scale2":
    name = first("experts.0", "gate_proj.weight_scale_2"); s = shard_of(name); s.save(change={name: struct.pack("<f", 7.0)})
elif what == "scale-zero":
    name = first("experts.0", "gate_proj.weight_scale"); s = shard_of(name); b = s.bytes(name); b[0] = 0; s.save(change={name: b})
elif what == "scale-subnormal":
    name = first("experts.0", "gate_proj.weight_scale"); s = shard_of(name); b = s.bytes(name); b[0] = 3; s.save(change={name: b})
elif what == "zeros":
    name = sorted(n for n in where if "experts.0." in n and n.endswith(("w1.weight", "gate_proj.weight")) and "shared" not in n and "mtp" not in n)[0]
    s = shard_of(name); b = s.bytes(name)
    fix = lambda n: 0 if n == 8 else n
    s.save(change={name: bytes(fix(x & 15) | fix(x >> 4) << 4 for x in b)})
elif what == "zeros-fp8":
    name = first("layers.1.", "experts.0.gate_proj.weight"); s = shard_of(name); b = s.bytes(name)
    s.save(change={name: bytes(0 if x & 0x7f < 8 else x for x in b)})
elif what == "mixed":
    name = first("layers.1", "experts.0.w1.weight"); shard_of(name).save(dtype={name: "F8_E4M3"})
elif what == "mtp-count": config["num_nextn_predict_layers"] = 4; put("config.json", config)
elif what == "mtp-uncounted": config["num_nextn_predict_layers"] = 0; put("config.json", config)
elif what == "mtp-inside":
    name = first("layers.0", "attn"); shard_of(name).save(rename={name: name.replace("layers.0.", "layers.0.mtp.")})
    where[name.replace("layers.0.", "layers.0.mtp.")] = where.pop(name); put_index()
elif what == "mtp-groups":
    name = [n for n in where if "mtp" in n and n.endswith("w1.weight")][0]; s = shard_of(name)
    s.header[name]["shape"][1] //= 2; s.save(dtype={name: "BF16"})
    quantization(config_groups={"a": {"targets": ["Linear"]}})
elif what == "mtp-ignore":
    name = [n for n in where if "mtp" in n and n.endswith("w1.weight")][0]; s = shard_of(name)
    s.header[name]["shape"][1] //= 2; s.save(dtype={name: "BF16"}); quantization(ignore=["embed"])
elif what == "ignore": quantization(ignore=["re:^mtp.*", "no_such_module"])
elif what == "excluded": put("hf_quant_config.json", {"quantization": {"quant_algo": "NVFP4", "exclude_modules": ["lm_haed"]}})
elif what == "algorithm": quantization(quant_algo="W4A8_NVFP4_FP8")
elif what == "bad-pattern": quantization(ignore=["re:^mtp.*", "re:(("])
elif what in ("router", "embedding"):
    name = first({"router": "ffn.gate.weight", "embedding": "embed"}[what]); s = shard_of(name); t = s.tensors()[name]
    width = len(s.bytes(name)) // (t["shape"][0] * t["shape"][1])
    s.header[name]["shape"] = [t["shape"][0], t["shape"][1] * width]; s.save(dtype={name: "U8"})
elif what == "overlap": quantization(config_groups={"a": {"targets": ["Linear"]}, "b": {"targets": ["re:.*experts.*"]}})
elif what == "unmatched": quantization(config_groups={"a": {"targets": ["Linear"]}, "b": {"targets": ["re:^nothing$"]}})
elif what == "target": quantization(config_groups={"a": {"targets": ["Linear", "re:.*expert_s.*"]}})
elif what == "uncovered": quantization(config_groups={"a": {"targets": ["re:.*experts.*"]}}, ignore=["re:^mtp.*"])
elif what == "activations":
    quantization(config_groups={"a": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "float"},
                                      "input_activations": {"num_bits": 8, "type": "float"}}})
elif what == "truncation": put("tokenizer.json", {"truncation": {"max_length": 512}})
elif what == "padding": put("tokenizer.json", {"padding": {"length": 512}})
elif what == "vision":
    name = first("embed"); shard_of(name).save(rename={name: "vision_tower.patch.weight"})
    where["vision_tower.patch.weight"] = where.pop(name); put_index()
elif what == "processor": os.remove(path("preprocessor_config.json"))
elif what == "processor-old": os.rename(path("preprocessor_config.json"), path("processor_config.json"))
elif what == "architecture": config["architectures"] = ["SomethingElse"]; put("config.json", config)
elif what == "fewer-layers": config["num_hidden_layers"] = 1; put("config.json", config)
elif what == "bad-tokenizer": open(path("tokenizer.json"), "w").write("{")
elif what == "lost": name = first("embed"); shard_of(name).save(drop=[name]); del where[name]; put_index()
elif what == "added":
    name = first("embed"); shard_of(name).save(rename={name: "extra.weight"}); where["extra.weight"] = where.pop(name); put_index()
elif what == "config": os.remove(path("config.json"))
elif what == "changed":
    name = first("embed"); s = shard_of(name); b = s.bytes(name); b[0] ^= 1; s.save(change={name: b})
elif what == "other-scale":
    name = min(n for n in where if "experts.0." in n and n.endswith((".scale", ".weight_scale")) and "mtp" not in n); s = shard_of(name); b = s.bytes(name); b[0] ^= 1; s.save(change={name: b})
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
  rows=$((rows + 1)); rm -rf ck; cp -r "$model" ck
  python3 break.py "$fault" ck || { fail "cannot break it: $fault"; continue; }
  source=(--against "$model")
  case $fault in scale* | subnormal | e8m0*) source=() ;; esac  # they differ from the source, which is an error by itself
  expect "$status" verify-ckpt-id audit ck "${source[@]}" -q || echo "    ($fault)"
  grep -q "^[a-z]* *$code: " out || { fail "$fault: no finding $code"; cat out; }
  grep -A2 "^[a-z]* *$code: " out | grep -c '^         \(why\|fix\)' | grep -q '[02468]$' || fail "$fault: $code has no why and fix"
  ! grep -q "^[a-z]* *$code: " "sound.$model" || fail "$fault: the sound $model has $code as well"
done <<'EOF'
absent ds4-mini index.absent 3
elsewhere ds4-mini index.elsewhere 3
unlisted ds4-mini index.unlisted 0
total ds4-mini index.total-size 0
bad-index ds4-mini index.unreadable 3
bad-config ds4-mini config.unreadable 3
lfs ds4-mini shards.lfs-pointer 3
missing ds4-mini shards.missing 3
truncated ds4-mini shards.unreadable 3
twice ds4-mini shards.twice 3
twice ds4-mini index.extra-shard 3
fused ds4-mini experts.fused 3
scale-missing ds4-mini experts.scale-missing 3
scale-missing nvfp4 experts.scale-missing 3
expert-missing ds4-mini experts.incomplete 3
expert-missing nvfp4 experts.incomplete 3
layer-missing ds4-mini experts.refused 3
nan ds4-mini experts.scale-nonfinite 3
infinite glm-fp8-mini experts.scale-nonfinite 3
scale2-infinite nvfp4 experts.scale-nonfinite 3
scale2 nvfp4 experts.gate-up-scale 0
scale-zero nvfp4 experts.scale-zero 0
scale2-zero nvfp4 experts.scale-zero 0
scale-subnormal nvfp4 experts.scale-subnormal 0
subnormal glm-fp8-mini experts.scale-subnormal 0
e8m0-smallest mxfp4 experts.scale-subnormal 0
zeros ds4-mini experts.one-signed-zeros 0
zeros nvfp4 experts.one-signed-zeros 0
zeros-fp8 glm-fp8-mini experts.one-signed-zeros 0
mixed ds4-mini experts.mixed-dtypes 3
mtp-count ds4-mini mtp.count 3
mtp-uncounted ds4-mini mtp.count 0
mtp-ignore ds4-mini mtp.not-ignored 3
mtp-groups ds4-mini mtp.not-ignored 3
mtp-inside ds4-mini serving.drafter-names 3
fewer-layers ds4-mini serving.drafter-names 0
mtp-uncounted nvfp4 serving.drafter-names 0
ignore ds4-mini recipe.ignore-unmatched 0
excluded nvfp4 recipe.ignore-unmatched 3
bad-pattern ds4-mini recipe.bad-pattern 0
router ds4-mini recipe.sensitive-quantized 3
embedding ds4-mini recipe.sensitive-quantized 3
overlap ds4-mini recipe.group-overlap 0
unmatched ds4-mini recipe.group-unmatched 0
target ds4-mini recipe.group-unmatched 0
uncovered ds4-mini recipe.uncovered 0
activations ds4-mini recipe.activations 0
algorithm nvfp4 recipe.activations 0
truncation ds4-mini tokenizer.truncation 3
padding ds4-mini tokenizer.padding 3
bad-tokenizer ds4-mini tokenizer.unreadable 3
tokenizer ds4-mini tokenizer.missing 3
vision ds4-mini vision.processor 3
processor kimi vision.processor 3
config ds4-mini config.missing 3
architecture ds4-mini serving.architecture 0
changed ds4-mini against.changed 3
other-scale ds4-mini against.scales 3
other-scale nvfp4 against.scales 3
lost ds4-mini against.lost 3
added ds4-mini against.added 3
mtp-lost ds4-mini against.mtp-lost 3
EOF
echo "$rows faults, each alone"

# --- DSpark blocks: num_nextn_predict_layers is 1 for any number of them, dspark_target_layer_ids has one entry each ---
rm -rf dspark; cp -r "$GOLDEN/ds4-dspark-mini/checkpoint" dspark; chmod -R u+w dspark; echo '{}' >dspark/tokenizer.json
expect 0 verify-ckpt-id audit dspark; grep -q mtp.count out && fail "mtp.count of DSpark blocks"
targets() { python3 -c 'import json, sys; c = json.load(open("dspark/config.json")); c["dspark_target_layer_ids"] = eval(sys.argv[1]); json.dump(c, open("dspark/config.json", "w"))' "$1"; }
targets '[0, 1, 1]'; expect 0 verify-ckpt-id audit dspark; grep -q mtp.count out && fail "mtp.count with dspark_target_layer_ids"
targets '[0] * 4'; expect 3 verify-ckpt-id audit dspark
prints 'mtp.count: the length of dspark_target_layer_ids is 4, the shards hold 3 drafter layers'

# --- repacked experts are harmless to the rest; worlds and profiles ---
rm -rf ck; cp -r "$GOLDEN/ds4-mini/checkpoint" ck; python3 break.py repacked ck
expect 0 verify-ckpt-id audit ck --against "$GOLDEN/ds4-mini/checkpoint"
prints "tensors besides the experts' weights equal the source"
expect 3 verify-ckpt-id audit ck --world 4; prints 'serving.world'
cp -r kimi old && python3 break.py processor-old old
expect 0 verify-ckpt-id audit old; prints 'warning  vision.processor: .*no preprocessor_config.json$'
expect 3 verify-ckpt-id audit old --against kimi; prints 'preprocessor_config.json is in the source and not here'
echo '{"name": "small", "geometry": {"layers": 2, "experts": 4, "hidden": 192, "intermediate": 128}}' >p.json
expect 3 verify-ckpt-id audit ck --profile p.json
prints 'profile.geometry: the number of routed experts is 3, profile small has 4'
echo '{"name": "small", "families": ["NVFP4"], "geometry": {"layers": 2, "experts": 3, "hidden": 192, "intermediate": 128}}' >p.json
expect 3 verify-ckpt-id audit ck --profile p.json
prints "profile.geometry: the experts' format is MXFP4, profile small has NVFP4"
mkdir profiles && sed 's/NVFP4/MXFP4/' p.json >profiles/small.json
expect 0 verify-ckpt-id audit ck --profile profiles/small.json; prints 'matches profile small'
expect 0 env PLANESMITH_PROFILES=profiles verify-ckpt-id audit ck; prints 'note +profile.geometry: matches profile small'
expect 0 verify-ckpt-id audit ck --json; python3 -c 'import json; json.load(open("out"))' || fail "not one JSON document"
expect 1 verify-ckpt-id audit nowhere
expect 2 verify-ckpt-id audit
finish
