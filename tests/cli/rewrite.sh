# repack-experts quantize and translate against an independent judge in NumPy: checkpoints of hard values in every layout and
# spelling, each result worked out by the formats' definitions.
. "$SOURCE/tests/cli/common.sh"
python_with numpy
cd "$WORK" || exit 1
JUDGE=$SOURCE/tests/tools/rewrite_judge.py
export PYTHONPATH=$SOURCE/tests/tools PYTHONDONTWRITEBYTECODE=1
planes() { rm -rf planes; expect 0 build-planescache -q t --out planes --ckpt-id pin; }
# The only thing wrong may be the size of weights, which some of these checkpoints have as no model does.
sound() { verify-ckpt-id audit -q "$1" --against s >out; ! grep '^error' out | grep -v 'experts.scale-inverted' || fail "audit of $1"; }
make() { rm -rf s t; expect 0 python "$JUDGE" make "$1" s "${@:2}"; }

# quantize: experts constant, all zeros, zero from a third on, subnormal, of all magnitudes, on the thresholds.
quantized() {
  make floats "$@" || return
  for to in nvfp4 mxfp4; do
    rm -rf t
    expect 0 repack-experts quantize -q s t --to $to && { expect 0 python "$JUDGE" quantized s t $to || cat err; }
    planes
  done
}
# analyze: what either step costs is known before anything is written.
costs() {
  repack-experts analyze s --json -q >said.json 2>err || [ $? = 3 ] || fail "analyze of $*"
  expect 0 python "$JUDGE" costs s <said.json || cat err
}
quantized; costs
verify-ckpt-id audit -q s >out; grep -Eq 'experts.constant: 6 expert weights' out || fail "experts of one value are not seen"
quantized seed=2
quantized dtype=F16 fused=yes; costs
quantized dtype=F16 seed=2
quantized dtype=F32 fused=weight seed=3
quantized dtype=F32 seed=2; costs
quantized fused=weight prefix=model.language_model. nested=yes
quantized fused=yes prefix=language_model.model. drafter=mtp.0.; costs
repack-experts analyze s --report page.html -q >out 2>err
if [ -e page.html ]; then grep -q '"codebook":' page.html || fail "the page lacks what the codebook costs"; else says libjs-chart; fi
expect 2 repack-experts analyze s --layers 0; says 'layer 0 has no routed experts'
expect 2 repack-experts analyze s --memory 1kB; says 'smallest that works'
quantized block=ffn prefix= drafter=mtp.0.
quantized block=block_sparse_moe prefix=language_model.
quantized drafter=layer fused=yes
# What is left alone is listed: drafters by a glob, or by name where the recipe knows no globs.
grep -q '"model.layers.3\*"' t/config.json && fail "a list without globs has a glob"
grep -q '"model.layers.3.mlp.experts"' t/config.json || fail "the drafter's experts are not listed"
expect 0 repack-experts quantize -q s u --to nvfp4; grep -q '"model.layers.3\*"' u/config.json || fail "the drafter is not listed"
sound u

# What quantizes is chosen as builds choose what converts.
expect 2 repack-experts quantize s v --to nvfp4 --backend cpu --gpus 0; says '--gpus'; absent v
if build-planescache --version | grep -q 'CUDA backend not built in'; then
  expect 1 repack-experts quantize s v --to nvfp4 --backend cuda; says 'no CUDA backend.*built without it'; absent v
elif repack-experts quantize -q s v --to nvfp4 --backend cuda >out 2>err; then
  diff -r -x .repack-experts u v >err || fail "a GPU makes other bytes: $(cat err)"
else
  echo "SKIPPED: quantize --backend cuda ($(cat err))"
fi

# Refused, with the reason: a module beside the experts that is quantized, a lost expert, other shapes.
make fp8-bf16; expect 1 repack-experts quantize s t --to nvfp4; says 'quantized already.*FP8 in blocks \(fp8\)'; absent t
make floats
# edit CODE: of the checkpoint s, as `tensors` and `config`.
edit() { python - "$1" <<'PY'
import json, shutil, sys, hard_checkpoints
tensors, config = hard_checkpoints.read("s"), json.load(open("s/config.json"))
exec(sys.argv[1])
shutil.rmtree("s"); hard_checkpoints.write("s", tensors, config)
PY
}
edit 't = tensors["model.layers.1.self_attn.o_proj.weight"]; t.dtype = "F8_E4M3"; t.data = t.data[::2]'
expect 1 repack-experts quantize s t --to nvfp4; says 'self_attn.o_proj.weight.*F8_E4M3, so it is quantized already'; absent t
make floats
edit 'del tensors["model.layers.2.mlp.experts.1.up_proj.weight"]'
expect 1 repack-experts quantize s t --to nvfp4; says '2 sparse layers x 3 experts x 3 = 18 .* 1 are missing.*up projection of expert 1 in layer 2'
make floats seed=3  # a head that is the embedding is a module, too
edit 'del tensors["lm_head.weight"]; config["tie_word_embeddings"] = True'
expect 0 repack-experts quantize -q s t --to nvfp4; grep -q '"lm_head"' t/config.json || fail "the tied head is not listed"
verify-ckpt-id audit -q t >out; grep -q 'ignore-unmatched' out && fail "the tied head is missed"
grep -Eq 'experts.identical: [0-9]' out || fail "identical experts are not seen"
rm -rf t
make floats fused=yes
edit 'for t in tensors.values():
  if len(t.shape) == 3: t.shape[1:] = t.shape[:0:-1]'
expect 1 repack-experts quantize s t --to nvfp4; says 'stores the matrix transposed'
verify-ckpt-id audit -q s >out; grep -q 'experts.not-quantized: .*stores the matrix transposed' out || fail "audit advises what is refused"
make floats
edit 'for n in [n for n in tensors if "experts.0.gate_proj" in n]: t = tensors[n]; t.data = t.data[:100] + b"\x80\xff" + t.data[102:]'
expect 1 repack-experts quantize s t --to mxfp4; says "element \[0, 50\] of 'model.layers.[12].mlp.experts.0.gate_proj' is -inf"
make floats block=block_sparse_moe
edit 'config["intermediate_size"] = config.pop("moe_intermediate_size"); config["model_type"] = "mixtral"'
expect 1 repack-experts quantize s t --to nvfp4; says 'block_sparse_moe in the names of mixtral.*does not serve'
grep -q 'quantized already' "$WORK/err" && fail "floats are said to be quantized already"

# translate: all modules are equal in float64, and planes can be made.
translated() {
  make "$@" || return
  expect 0 repack-experts translate -q s t --gate && { expect 0 python "$JUDGE" translated s t || cat err; }
  planes
  sound t
}
for layout in ct-nvfp4 ct-nvfp4-act ct-mxfp4 modelopt-mxfp4 quark-mxfp4 ct-fp8 fp8-bf16 fp8-fused-scales fp8-fused fp8-fused-e8m0 \
  nvfp4-fused ct-mixed; do translated $layout; done
# Overlapping groups: by the order of the file, of equal targets the last; the ignored module stays a float.
grep -A1 '"model.layers.2.mlp.experts.0.down_proj"' t/config.json | grep -q W4A16_NVFP4 || fail "the first group did not win"
grep -q '"model.layers.1.self_attn\*"' t/config.json || fail "the ignored module is not ignored any more"
grep -q 'kv_cache_scheme' t/config.json || fail "the scheme of keys and values is lost"
translated ct-nvfp4 prefix=model.language_model.
for layout in ct-mxfp4 modelopt-mxfp4 quark-mxfp4; do translated $layout model=deepseek_v4 block=ffn prefix= spread=60; done
expect 0 python - <<'PY'
import json
c = json.load(open("t/config.json"))
assert c["expert_dtype"] == "fp4" and c["quantization_config"]["quant_method"] == "fp8", c
PY
# The MXFP4 experts of DeepSeek-V4's drafters are served, too.
expect 1 repack-experts translate "$GOLDEN/ds4-mini/checkpoint" n; says 'there is nothing to translate'; absent n
# What could not be built afterwards is not translated: a lost scale, a lost expert, an expert that is not quantized.
refused() { edit "$1"; expect 1 repack-experts translate s t; says "$2"; absent t; }
make ct-nvfp4; refused 'del tensors["model.layers.2.mlp.experts.1.up_proj.weight_global_scale"]' \
  "up_proj' has neither weight_scale_2 nor weight_global_scale"
LOSE='for n in [n for n in tensors if ".layers.2.mlp.experts.1.up_proj." in n]: del tensors[n]'
make ct-nvfp4; refused "$LOSE" "'model.layers.2.mlp.experts' has 8 quantized expert weights; 3 experts x 3 = 9 were expected"
expect 3 verify-ckpt-id audit -q s; prints '^error +experts.incomplete: 2 layers x 3 experts x 3 make 18 weights, the shards hold 17'
make ct-nvfp4; refused "$LOSE
tensors['model.layers.2.mlp.experts.1.up_proj.weight'] = tensors['lm_head.weight']" 'some of its experts are BF16, not quantized.*repack-experts quantize'
expect 3 verify-ckpt-id audit -q s; prints '^error +experts.layout: some of its experts are BF16'
make ct-nvfp4
edit 'tensors["model.layers.1.mlp.experts.0.up_proj.weight_global_scale"].data = b"\0\0\x80\x7f"'
expect 1 repack-experts translate s t; says 'element 0 is inf.*all weights of this module are zero; repack-experts quantize'
expect 3 verify-ckpt-id audit -q s; prints '^error +experts.all-zero: 1 tensors of global scales'
for scale in '\0\0\0\0' '\0\0\xc0\x7f'; do
  rm -rf t; edit "tensors['model.layers.1.mlp.experts.0.up_proj.weight_global_scale'].data = b'$scale'"
  expect 1 repack-experts translate s t; says 'element 0 is (0|nan); a finite scale'
  expect 3 verify-ckpt-id audit -q s; prints '^error +experts.scale-nonfinite: 1 tensors of global scales of experts are 0 or NaN'
done
make ct-nvfp4-act
edit 'tensors["model.layers.1.mlp.experts.0.up_proj.input_global_scale"].data = b"\0\0\x80\x7f"'
expect 1 repack-experts translate s t; says 'element 0 is inf.*calibrate with samples that reach all experts'
absent t/model.safetensors.index.json; rm -rf t
# A scale of the right layout in another type; fused integers.
translated ct-nvfp4; rm -rf s; mv t s
edit 't = tensors["model.layers.1.mlp.experts.0.up_proj.weight_scale_2"]; t.dtype = "BF16"; t.data = t.data[2:]'
expect 1 build-planescache s --out p --ckpt-id pin; says 'weight_scale_2.* is BF16 .*repack-experts translate SOURCE TARGET widens it'; absent p
expect 0 repack-experts translate -q s t; planes
make nvfp4-fused; edit 'for n, t in tensors.items():
  if len(t.shape) == 3 and t.dtype == "U8": t.dtype = "I32"; t.shape[2] //= 4
del config["quantization_config"]'
expect 1 repack-experts translate s t; says 'packed integers.*repack-experts quantize SOURCE'; absent t
expect 3 verify-ckpt-id audit -q s; prints '^error +experts.layout: .*packed integers'
# The closed form ends where e4m3 does.
translated ct-mxfp4 top=200 spread=17
make ct-mxfp4 top=60 spread=18
expect 1 repack-experts translate s t; says '[0-9]+ of its [0-9]+ blocks are more than 2\^17 below.*--lossy'; absent t
expect 3 repack-experts translate -q s t --lossy --gate; prints 'FAILED'
planes

# What nothing makes served is named everywhere, with what to do instead.
for entry in "gptq GPTQ" "awq AWQ" "bnb bitsandbytes" "hf-fp8-tensor one scale for a tensor" \
  "int8 int8" "int4 pack-quantized" "ct-channel scale for each row" "ct-tensor one scale for a tensor" \
  "fbgemm fbgemm_fp8" "modelopt-fp8 modelopt FP8" "ct-mxfp8 MXFP8" "modelopt-mxfp8 MXFP8" "ar-mxfp8 MXFP8 \(auto-round mxfp8\)" \
  "torchao format of torchao.*_weight_" "hqq HQQ" "quanto quanto" "exl3 ExLlamaV3" "eetq EETQ" "w4afp8 int4 for FP8" \
  "later quantized \(later\), in U8 tensors" "modelopt-w4a8 W4A8_NVFP4_FP8\), with a scale for each 32" \
  "ct-uncompressed BF16 with scales beside them"; do
  make "${entry%% *}"
  for command in "repack-experts translate s t" "repack-experts quantize s t --to nvfp4" "repack-experts analyze s" \
    "build-planescache s --out t --ckpt-id pin"; do
    expect 1 $command; says "${entry#* }.*repack-experts quantize SOURCE"; absent t
  done
  expect 3 verify-ckpt-id audit -q s; prints "^error +experts.layout: .*${entry#* }"
done
make floats
edit 'for n in [n for n in tensors if ".mlp.experts." in n]: tensors[n.replace(".experts.", ".switch_mlp.")] = tensors.pop(n)'
for command in "repack-experts translate s t" "repack-experts quantize s t --to nvfp4" "build-planescache s --out t --ckpt-id pin"; do
  expect 1 $command; says "in MLX's layout"; absent t
done
# Block scales of F16, which only translate reads.
make fp8-bf16
edit 'for n, t in tensors.items():
  if n.endswith("weight_scale_inv"): t.data = b"".join(b"\0" + bytes([8 + i % 16]) for i in range(len(t.data) // 2)); t.dtype = "F16"'
expect 1 build-planescache s --out t --ckpt-id pin; says 'FP8 in blocks.*repack-experts translate SOURCE'
rm -rf t; expect 0 repack-experts translate -q s t --gate && { expect 0 python "$JUDGE" translated s t || cat err; }
planes
finish
