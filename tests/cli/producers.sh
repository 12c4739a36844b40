# Checkpoints that real tools wrote (from outside the repository: shared/producers): what each is said to be, what
# quantize, translate and finish make of them, and that audit finds nothing wrong where nothing is.
. "$SOURCE/tests/cli/common.sh"
ARCHIVE=$SHARED/producers/checkpoints.tar.xz
[ -e "$ARCHIVE" ] || skip "$ARCHIVE is not there"
C=$WORK/c; mkdir "$C" && tar -xJf "$ARCHIVE" -C "$C" || fail "cannot unpack $ARCHIVE"
NVFP4=$C/modelopt-nvfp4_experts_only-glm_moe_dsa
build() { build-planescache -q "$1" --out "$2" --ckpt-id pin; }
# audit_has STATUS DIR [ARGUMENTS] -- PATTERN...: the exit status, findings that are there, and (with !) are not.
audit_has() {
  local status=$1 dir=$2 args=(); shift 2
  while [ $# != 0 ] && [ "$1" != -- ]; do args+=("$1"); shift; done; shift
  expect "$status" verify-ckpt-id audit -q "$C/$dir" "${args[@]}" || grep -E '^error' -A2 "$WORK/out" | sed 's/^/    /'
  for pattern; do
    case $pattern in
      !*) ! grep -Eq -- "${pattern#!}" "$WORK/out" || { fail "audit of $dir says '${pattern#!}'"; grep -E -- "${pattern#!}" "$WORK/out"; } ;;
      *) grep -Eq -- "$pattern" "$WORK/out" || fail "audit of $dir lacks '$pattern'" ;;
    esac
  done
}

# quantize: the same bytes as modelopt's, whether the source's experts are apart or fused.
for source in bf16 fused; do
  expect 0 repack-experts quantize "$C/$source-glm_moe_dsa" "$WORK/$source" --to nvfp4 --dry-run
  prints '2 sparse layers x 4 experts x 3 = 24 expert weights'; absent "$WORK/$source"
  expect 0 repack-experts quantize -q "$C/$source-glm_moe_dsa" "$WORK/$source" --to nvfp4
  python3 - "$WORK/$source" "$NVFP4" "$C/$source-glm_moe_dsa" <<'PY' || fail "quantize of $source differs from modelopt"
import glob, json, struct, sys
def load(directory):
    tensors = {}
    for path in glob.glob(directory + "/*.safetensors"):
        data = open(path, "rb").read(); n = struct.unpack("<Q", data[:8])[0]
        for name, t in json.loads(data[8:8 + n]).items():
            if name != "__metadata__":
                begin, end = t["data_offsets"]; tensors[name] = t["dtype"], t["shape"], data[8 + n + begin:8 + n + end]
    return tensors
ours, theirs, source = map(load, sys.argv[1:4])
assert ours.keys() == theirs.keys(), ours.keys() ^ theirs.keys()
for name in ours:
    if name.endswith(".input_scale"):
        assert ours[name] == ("F32", [], struct.pack("<f", 1)), name
    else:
        assert ours[name] == theirs[name], name
for name in ("config.json", "hf_quant_config.json"):
    assert json.load(open(f"{sys.argv[1]}/{name}")) == json.load(open(f"{sys.argv[2]}/{name}")), name
index = json.load(open(sys.argv[1] + "/model.safetensors.index.json"))
assert index["weight_map"].keys() == ours.keys() and index["metadata"]["total_size"] == sum(len(t[2]) for t in ours.values())
PY
  expect 0 build "$WORK/$source" "$WORK/planes-$source"
  expect 0 verify-ckpt-id audit -q "$WORK/$source" --against "$C/$source-glm_moe_dsa"
done
expect 0 build "$NVFP4" "$WORK/planes-modelopt"
for source in bf16 fused; do
  for file in $(cd "$WORK/planes-modelopt" && find . -name '*.bin'); do same "$WORK/planes-$source/$file" "$WORK/planes-modelopt/$file"; done
done
expect 0 repack-experts quantize -q "$C/bf16-glm_moe_dsa" "$WORK/mx" --to mxfp4
expect 0 build "$WORK/mx" "$WORK/planes-mx"
expect 1 repack-experts quantize "$NVFP4" "$WORK/again" --to nvfp4; says 'quantized already'; absent "$WORK/again"
# Goes on where it was stopped; another recipe in the same place is refused.
rm "$WORK/bf16/model-00003-of-00006.safetensors"
expect 0 repack-experts quantize "$C/bf16-glm_moe_dsa" "$WORK/bf16" --to nvfp4; prints 'model-00002.*finished before'
same "$WORK/bf16/model-00003-of-00006.safetensors" "$WORK/bf16/model-00003-of-00006.safetensors"
expect 1 repack-experts quantize "$C/bf16-glm_moe_dsa" "$WORK/bf16" --to mxfp4; says 'another build'

# translate: every element is the same, and planes can be made.
for name in ct-nvfp4a16-deepseek_v3 ct-nvfp4a16-all-deepseek_v3 ct-fp8_block-deepseek_v3 ct-mxfp4a16-deepseek_v3 \
  modelopt-mxfp4_default-deepseek_v3 hf-fp8-deepseek_v3 fp8split-bf16-deepseek_v3; do
  expect 0 repack-experts translate -q "$C/$name" "$WORK/$name" --gate
  prints 'passed: '
  expect 0 build "$WORK/$name" "$WORK/planes-$name"
done
# Dense layers and shared experts were weight_packed, which is not a tensor more than in the source.
expect 0 verify-ckpt-id audit -q "$WORK/ct-nvfp4a16-deepseek_v3" --against "$C/ct-nvfp4a16-deepseek_v3"
! grep -q 'against.added' "$WORK/out" || fail "audit takes packed weights for new ones"
# FP8 blocks as other tools shape and name them: modelopt's have four dimensions, or only config.json differs.
# varied TARGET SOURCE CODE: a copy with another config.json, or other headers (`tensors`) over the same data.
varied() {
  cp -rL "$C/$2" "$C/$1" && python3 - "$C/$1" "$3" <<'PY'
import glob, json, os, struct, sys
directory, code = sys.argv[1:]
config = json.load(open(directory + "/config.json"))
for path in glob.glob(directory + "/*.safetensors"):
    data = open(path, "rb").read(); n = struct.unpack("<Q", data[:8])[0]; tensors = json.loads(data[8:8 + n])
    exec(code)
    text = json.dumps(tensors).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data[8 + n:])
json.dump(config, open(directory + "/config.json", "w"))
PY
}
PB_WO='config["quantization_config"] = {"quant_method": "modelopt", "quant_algo": "FP8_PB_WO", "ignore": ["lm_head"]}'
varied modelopt-pb_wo ct-fp8_block-deepseek_v3 "$PB_WO
for name, t in tensors.items():
  if name.endswith('weight_scale'): t['shape'] = [t['shape'][0], 1, t['shape'][1], 1]"
varied modelopt-pb_wo-flat ct-fp8_block-deepseek_v3 "$PB_WO"
varied modelopt-pb_wo-inv fp8split-bf16-deepseek_v3 "$PB_WO"
for name in modelopt-pb_wo modelopt-pb_wo-flat modelopt-pb_wo-inv; do
  expect 1 build "$C/$name" "$WORK/no"; says 'FP8 in blocks.*modelopt FP8_PB_WO.*repack-experts translate'; absent "$WORK/no"
  audit_has 0 $name -- 'warning +experts.layout.*translate'
  expect 0 repack-experts translate -q "$C/$name" "$WORK/$name" --gate; prints 'passed: '
  expect 0 build "$WORK/$name" "$WORK/planes-$name"
done
for file in $(cd "$WORK/planes-ct-fp8_block-deepseek_v3" && find . -name '*.bin'); do
  same "$WORK/planes-modelopt-pb_wo/$file" "$WORK/planes-ct-fp8_block-deepseek_v3/$file"
done
# FP8 experts beside modules of another format.
varied modelopt-pb_wo-mixed ct-fp8_block-deepseek_v3 'config["quantization_config"] = {"quant_method": "modelopt",
  "quant_algo": "MIXED_PRECISION", "ignore": ["lm_head"], "quantized_layers": {
    **{f"model.layers.{i}.mlp.experts": {"quant_algo": "FP8_PB_WO"} for i in (1, 2)},
    **{f"model.layers.{i}.self_attn.o_proj": {"quant_algo": "FP8"} for i in range(3)}}}
for name, t in tensors.items():
  if name.endswith("o_proj.weight_scale"): t["shape"] = []; t["dtype"] = "F32"  # as many bytes as two of BF16
'
expect 0 repack-experts translate -q "$C/modelopt-pb_wo-mixed" "$WORK/modelopt-pb_wo-mixed" --gate; prints 'passed: '
expect 0 build "$WORK/modelopt-pb_wo-mixed" "$WORK/planes-modelopt-pb_wo-mixed"
expect 1 repack-experts translate "$WORK/modelopt-pb_wo-mixed" "$WORK/again"; says 'nothing to translate'
varied autoround-fp8 fp8split-bf16-deepseek_v3 'config["quantization_config"] = {"quant_method": "auto-round", "bits": 8,
  "data_type": "fp", "group_size": [128, 128], "act_bits": 8, "weight_block_size": [128, 128]}'
audit_has 0 autoround-fp8 -- 'FP8 by AutoRound \(auto-round fp8\).*reads it as it is'
rm -rf "$C"/modelopt-pb_wo* "$C/autoround-fp8"
# Nothing but the tensors says what it is.
varied grid ct-fp8_block-deepseek_v3 'config.pop("quantization_config", None)
for name, t in tensors.items():
  if name.endswith("weight_scale"): t["shape"] = [t["shape"][0], 1, t["shape"][1], 1]'
expect 1 build "$C/grid" "$WORK/no"; says 'FP8 in blocks.*repack-experts translate'
expect 0 repack-experts translate -q "$C/grid" "$WORK/grid" --gate; prints 'passed: '
expect 0 build "$WORK/grid" "$WORK/planes-grid"
varied unnamed modelopt-nvfp4_experts_only-glm_moe_dsa 'config.pop("quantization_config", None)'; rm -f "$C/unnamed/hf_quant_config.json"
expect 1 repack-experts translate "$C/unnamed" "$WORK/no"; says 'is quantized already: its layout is served'
# FP8 experts beside a module with one scale: what comes out names the size of the blocks, as the source did.
varied fp8-mixed fp8split-bf16-deepseek_v3 'for name, t in tensors.items():
  if name.endswith("o_proj.weight_scale_inv"): t["shape"] = []; t["dtype"] = "F32"  # as many bytes as two of BF16'
expect 0 repack-experts translate -q "$C/fp8-mixed" "$WORK/fp8-mixed" --gate; prints 'passed: '
expect 0 build "$WORK/fp8-mixed" "$WORK/planes-fp8-mixed"
# Names that no command makes served: nothing is written, and no other command is advised.
renamed() { varied "$1" "$2" "os.path.exists(directory + '/model.safetensors.index.json') and os.remove(directory + '/model.safetensors.index.json')
for name in list(tensors):
  if '.mlp.experts.' in name: tensors[name.replace('.mlp.experts.', '$3')] = tensors.pop(name)"; }
renamed moe-ct ct-nvfp4a16-deepseek_v3 .moe.experts.
renamed moe-modelopt modelopt-nvfp4_experts_only-glm_moe_dsa .feed_forward.experts.
renamed moe-bf16 bf16-glm_moe_dsa .mixer.experts.
renamed moe-fused fused-glm_moe_dsa .moe.experts.
for name in moe-ct moe-modelopt moe-bf16 moe-fused; do
  for command in build 'repack-experts translate' 'repack-experts quantize --to nvfp4'; do
    # shellcheck disable=SC2086 # a command and its options
    expect 1 $command "$C/$name" "$WORK/no"; absent "$WORK/no"
    says "named like 'model.layers.1.*experts"; ! grep -Eq 'reads it as it is|repack-experts (translate|quantize)' "$WORK/err" || fail "$name: advice that fails"
  done
  audit_has 3 $name -- 'error +experts.layout.*named like' '!reads it as it is'
done
rm -rf "$C"/moe-* "$C"/{grid,unnamed,fp8-mixed}
# Where the builder reads the source itself, too, translating changes no plane.
expect 0 build "$C/fp8split-bf16-deepseek_v3" "$WORK/planes-before"
for file in $(cd "$WORK/planes-before" && find . -name '*.bin'); do same "$WORK/planes-fp8split-bf16-deepseek_v3/$file" "$WORK/planes-before/$file"; done
for name in ct-w4a16g32-deepseek_v3 ct-w8a8-deepseek_v3 ct-mixed-deepseek_v3 gptoss-mxfp4; do
  expect 1 repack-experts translate "$C/$name" "$WORK/refused"; absent "$WORK/refused"
done
expect 1 repack-experts translate "$C/ct-w4a16g32-deepseek_v3" "$WORK/refused"; says 'pack-quantized.*repack-experts quantize'
expect 1 repack-experts translate "$C/ct-mixed-deepseek_v3" "$WORK/refused"; says 'float-quantized'
expect 1 repack-experts translate "$NVFP4" "$WORK/refused"; says 'nothing to translate'

# None is left out here.
for path in "$C"/*; do
  name=${path##*/}
  grep -Eq -- "(^|[^A-Za-z0-9_-])${name%-deepseek_v3}" "$0" || fail "$name is not tried"
done

# The verdict of the builders.
verdict() { expect 1 build-planescache "$C/$1" --out "$WORK/no" --ckpt-id pin; says "$2"; absent "$WORK/no"; }
verdict bf16-glm_moe_dsa 'not quantized yet.*repack-experts quantize'
verdict fused-glm_moe_dsa 'not quantized yet.*repack-experts quantize'
verdict ct-nvfp4a16-deepseek_v3 'NVFP4.*nvfp4-pack-quantized.*repack-experts translate'
verdict ct-nvfp4a16-all-deepseek_v3 'NVFP4.*nvfp4-pack-quantized.*repack-experts translate'
verdict ct-mxfp4a16-deepseek_v3 'MXFP4.*mxfp4-pack-quantized.*repack-experts translate'
verdict ct-fp8_block-deepseek_v3 'FP8.*float-quantized.*repack-experts translate'
verdict ct-mixed-deepseek_v3 'mixed-precision.*nvfp4-pack-quantized.*repack-experts translate'
verdict ct-w4a16g32-deepseek_v3 'pack-quantized.*not served'
verdict ct-w8a8-deepseek_v3 'int8.*not served'
verdict hf-fp8-deepseek_v3 'FP8.*repack-experts translate'
verdict modelopt-mxfp4_default-deepseek_v3 'MXFP4.*repack-experts translate'
verdict gptoss-mxfp4 'gpt-oss'
verdict modelopt-nvfp4_experts_only-minimax_m2 'minimax_m2'
expect 1 build "$C/modelopt-nvfp4_zero-deepseek_v3" "$WORK/zero"; says 'weight_scale_2 of 0: all weights of this expert are zero.*repack-experts quantize'
for name in modelopt-nvfp4_default-glm_moe_dsa modelopt-nvfp4_mixed-deepseek_v3 modelopt-w4a16_nvfp4-kimi_k25; do
  expect 0 build "$C/$name" "$WORK/planes-$name"
done

# audit: nothing wrong where nothing is.
audit_has 0 bf16-glm_moe_dsa -- 'note +experts.not-quantized'
audit_has 0 fused-glm_moe_dsa -- 'note +experts.not-quantized'
for name in modelopt-nvfp4_experts_only-glm_moe_dsa modelopt-nvfp4_default-glm_moe_dsa; do
  audit_has 0 $name --against "$C/bf16-glm_moe_dsa" -- '!^error' '!against.(lost|added|changed)' '!one-signed' '!recipe.activations'
done
audit_has 0 modelopt-nvfp4_mixed-deepseek_v3 -- '!^error' '!recipe\.' '!one-signed'
audit_has 3 modelopt-nvfp4_zero-deepseek_v3 -- 'experts.all-zero' '!scale-nonfinite' '!scale-zero'
# Its vision tower came without a processor, which is true.
audit_has 3 modelopt-w4a16_nvfp4-kimi_k25 -- 'vision.processor' '!recipe.activations' '!^error +(experts|recipe|index|against)'
for name in ct-nvfp4a16 ct-mxfp4a16 ct-fp8_block ct-mixed hf-fp8 modelopt-mxfp4_default; do
  audit_has 0 $name-deepseek_v3 -- 'warning +experts.layout.*translate' '!scale-missing' '!^error'
done
audit_has 3 ct-nvfp4a16-all-deepseek_v3 -- 'recipe.sensitive-quantized.*lm_head' 'experts.layout'
audit_has 0 fp8split-bf16-deepseek_v3 -- '!^error' '!^warning +(experts|index|recipe)'
for name in ct-w4a16g32-deepseek_v3 ct-w8a8-deepseek_v3 gptoss-mxfp4 modelopt-nvfp4_experts_only-minimax_m2; do
  audit_has 3 $name -- 'error +experts.layout' '!scale-missing' '!family'
done
audit_has 0 tok-source -- '!tokenizer'
audit_has 0 tok-resaved --against "$C/tok-source" -- '!tokenizer'
audit_has 3 tok-truncated --against "$C/tok-source" -- 'tokenizer.truncation'

# audit: what is wrong is seen. A global scale without its reciprocal; an expression that never ends.
python3 - "$WORK/ct-nvfp4a16-deepseek_v3" <<'PY'
import glob, json, os, struct, sys
for path in glob.glob(sys.argv[1] + "/*.safetensors"):
    data = bytearray(open(path, "rb").read()); n = struct.unpack("<Q", data[:8])[0]
    for name, t in json.loads(data[8:8 + n]).items():
        if name.endswith("weight_scale_2"):
            at = 8 + n + t["data_offsets"][0]
            data[at:at + 4] = struct.pack("<f", 1 / struct.unpack("<f", data[at:at + 4])[0])
    os.remove(path); open(path, "wb").write(data)
PY
expect 3 verify-ckpt-id audit -q "$WORK/ct-nvfp4a16-deepseek_v3"; prints 'experts.scale-inverted'
cp -rL "$C/ct-fp8_block-deepseek_v3" "$WORK/pattern"
sed -i 's/"lm_head"/"lm_head", "re:(([a-z0-9._]+)+)+!"/' "$WORK/pattern/config.json"
expect 0 timeout 60 verify-ckpt-id audit -q "$WORK/pattern"

# finish: what a quantizer left open.
cp -rL "$NVFP4" "$WORK/open"; cp -rL "$C/bf16-glm_moe_dsa" "$WORK/whole"
rm "$WORK/open/generation_config.json"
python3 - "$WORK/open" "$WORK/whole" <<'PY'
import json, struct, sys
open_, whole = sys.argv[1:]
tokenizer = json.load(open(open_ + "/tokenizer.json")); tokenizer["truncation"] = {"max_length": 8}
json.dump(tokenizer, open(open_ + "/tokenizer.json", "w"))
header = {"mtp.0.eh_proj.weight": {"dtype": "BF16", "shape": [4, 8], "data_offsets": [0, 64]}, "mtp.0.norm.weight": {"dtype": "BF16", "shape": [8], "data_offsets": [64, 80]}}
text = json.dumps(header).encode()
open(whole + "/mtp.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + bytes(range(80)))
index = json.load(open(whole + "/model.safetensors.index.json"))
for name in header: index["weight_map"][name] = "mtp.safetensors"
index["metadata"]["total_size"] += 80
json.dump(index, open(whole + "/model.safetensors.index.json", "w"))
config = json.load(open(whole + "/config.json")); config["num_nextn_predict_layers"] = 1
json.dump(config, open(whole + "/config.json", "w"))
open(whole + "/preprocessor_config.json", "w").write("{}")
PY
expect 3 verify-ckpt-id audit -q "$WORK/open" --against "$WORK/whole"
expect 0 repack-experts finish "$WORK/open" --from "$WORK/whole" "$WORK/finished" --dry-run; absent "$WORK/finished"
for step in '2 drafter' 'mtp' 'preprocessor_config.json' 'generation_config.json' 'truncation' 'num_nextn_predict_layers is 1'; do prints "$step"; done
expect 0 repack-experts finish -q "$WORK/open" --from "$WORK/whole" "$WORK/finished"
prints ' 0 errors, '
expect 0 verify-ckpt-id audit -q "$WORK/finished" --against "$WORK/whole"
expect 0 build "$WORK/finished" "$WORK/planes-finished"
# modelopt's recipe in its own file only, as its first versions left it.
own_file() {
  cp -rL "$C/$1" "$2" && python3 - "$2" <<'PY'
import json, sys
config = json.load(open(sys.argv[1] + "/config.json"))
quantization = config.pop("quantization_config")
json.dump(config, open(sys.argv[1] + "/config.json", "w"))
json.dump({"quantization": {"quant_algo": quantization["quant_algo"], "exclude_modules": quantization["ignore"]}},
          open(sys.argv[1] + "/hf_quant_config.json", "w"))
PY
}
own_file modelopt-mxfp4_default-deepseek_v3 "$WORK/own"
expect 1 build "$WORK/own" "$WORK/no"; says 'MXFP4.*modelopt MXFP4.*repack-experts translate'; absent "$WORK/no"
expect 0 verify-ckpt-id audit -q "$WORK/own"; prints 'experts.layout: .*modelopt MXFP4.*translate'
expect 0 repack-experts translate -q "$WORK/own" "$WORK/own-served" --gate; prints 'passed: '
expect 0 build "$WORK/own-served" "$WORK/planes-own"
own_file modelopt-nvfp4_experts_only-glm_moe_dsa "$WORK/own-nvfp4"
expect 1 repack-experts translate "$WORK/own-nvfp4" "$WORK/no"; says 'is modelopt NVFP4: .*nothing to translate'
expect 0 repack-experts finish -q "$WORK/own-nvfp4" --from "$WORK/whole" "$WORK/own-finished"
! grep -q quantization_config "$WORK/own-finished/config.json" || fail "finish invents a quantization_config"
grep -q '"mtp' "$WORK/own-finished/hf_quant_config.json" || fail "the drafter is not listed in hf_quant_config.json"
expect 0 build "$WORK/own-finished" "$WORK/planes-own-nvfp4"
# What is to be translated is not said to be built next.
expect 0 repack-experts finish "$C/ct-nvfp4a16-deepseek_v3" --from "$C/ct-nvfp4a16-deepseek_v3" "$WORK/finished-ct"; says 'next: repack-experts translate'
finish
