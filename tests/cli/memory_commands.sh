# --memory of every sub-command of every program: 64 MiB above the cap at most, under 64 MiB and 256 MiB. A command without a
# row here fails.
source "$(dirname "$0")/common.sh"
[ -z "${SANITIZED:-}" ] || skip "memory is not measured where a sanitizer adds its own"
source "$SOURCE/tests/tools/hub.sh"
rows="|"
# row STATUSES COMMAND...: each run begins with `before`, and ends with one of these statuses.
before=:
row() {
  local statuses=$1 cap peak status what; shift
  what=$1; case $1 in verify-ckpt-id | pack-chunks | repack-experts) what="$1 $2" ;; esac
  rows+="$what|"
  for cap in 64 256; do
    $before
    read -r peak status < <(python3 - "$@" --memory ${cap}MiB -q 2>log <<'END'
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, status)
END
)
    case " $statuses " in *" $status "*) ;; *) fail "exit $status instead of $statuses: $*"; tail -3 log ;; esac
    echo "$((peak / 1024)) MiB under --memory ${cap}MiB: $*"
    [ "$peak" -le $(((cap + 64) * 1024)) ] || fail "$((peak / 1024)) MiB under --memory ${cap}MiB: $*"
  done
}

# Experts of the real size; holes are enough. A checkpoint of floats, and one in compressed-tensors' layout.
make-checkpoint --layers 2 --experts 4 --hidden 4096 --intermediate 2048 --fill-layers none -o ck -q >/dev/null || fail "make-checkpoint"
python3 - <<'END'
import json, os, struct
experts, hidden, inner = 4, 4096, 2048
config = dict(architectures=["GlmMoeDsaForCausalLM"], model_type="glm_moe_dsa", num_hidden_layers=2, first_k_dense_replace=1,
              n_routed_experts=experts, hidden_size=hidden, moe_intermediate_size=inner, dtype="bfloat16")
matrices = [(f"model.layers.1.mlp.experts.{e}.{p}_proj.", *s) for e in range(experts)
            for p, s in (("gate", (inner, hidden)), ("up", (inner, hidden)), ("down", (hidden, inner)))]
rest = [("model.embed_tokens.weight", "BF16", [1000, hidden]), ("lm_head.weight", "BF16", [1000, hidden]),
        ("model.layers.1.mlp.gate.weight", "BF16", [experts, hidden]), ("model.norm.weight", "BF16", [hidden])]
size = dict(BF16=2, U8=1, F8_E4M3=1, F32=4)
def write(directory, tensors, more, ones=()):
    os.makedirs(directory)
    json.dump({**config, **more}, open(directory + "/config.json", "w"))
    json.dump({}, open(directory + "/tokenizer.json", "w"))
    header, at = {}, 0
    for name, dtype, shape in tensors:
        n = size[dtype]
        for d in shape: n *= d
        header[name] = dict(dtype=dtype, shape=shape, data_offsets=[at, at + n]); at += n
    text = json.dumps(header).encode(); text += b" " * (-len(text) % 8)
    with open(directory + "/model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text); f.truncate(8 + len(text) + at)
        for name in ones:
            f.seek(8 + len(text) + header[name]["data_offsets"][0]); f.write(struct.pack("<f", 1))
    json.dump({"metadata": {"total_size": at}, "weight_map": {name: "model.safetensors" for name in header}},
              open(directory + "/model.safetensors.index.json", "w"))
write("floats", rest + [(m + "weight", "BF16", [n, k]) for m, n, k in matrices], {})
weights = dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True, dynamic=False)
write("packed", sorted(rest + [t for m, n, k in matrices for t in ((m + "weight_packed", "U8", [n, k // 2]),
                                                                    (m + "weight_scale", "F8_E4M3", [n, k // 16]),
                                                                    (m + "weight_global_scale", "F32", [1]))], key=lambda t: -size[t[1]]),
      {"quantization_config": {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "version": "0.19.0",
       "ignore": ["model.layers.1.mlp.gate", "lm_head"], "config_groups": {"group_0": {"format": "nvfp4-pack-quantized",
       "targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}}}},
      [m + "weight_global_scale" for m, n, k in matrices])
END

before='rm -rf c s'
row 0 build-planescache ck -o c --store s --tiers base,delta,fp4 --ckpt-id a -T 8
before='rm -rf s2'
row 0 build-fp4-packs --from-planescache c -o s2 --tiers base,fp4,fp4q --reflink never -T 8
row 0 build-fp4-packs ck -o s2 --tiers base,delta --ckpt-id a -T 8
before=:
row 0 verify-ckpt-id id ck --recompute -T 8
row 0 verify-ckpt-id manifest ck -o m.json -T 8
row 0 verify-ckpt-id verify m.json --root ck --hash both -T 8
row 0 verify-ckpt-id verify c s -T 8
row 0 verify-ckpt-id check --planescache c --store s --tiers base,delta,fp4 --checkpoint ck --sample 4
row 0 verify-ckpt-id list --planescache c --store s
row "0 3" verify-ckpt-id audit ck
row 0 verify-ckpt-id rekey --from a --to b --planescache c --store s -n
before='cp_damaged'
cp_damaged() { rm -rf d; cp -r c d; printf x | dd of="$(echo d/v2/*/tp1-rank0/layer1.fp13.bin)" bs=1 seek=77 conv=notrunc status=none; }
row 0 verify-ckpt-id repair d --checkpoint ck -T 8
before='cp_other'
cp_other() { rm -rf d; cp -r c d; }
row 0 verify-ckpt-id prune --keep a --planescache d --force
before='rm -rf parts'
row 0 pack-chunks pack c s --name set -o parts --part-size 100MB -T 8
before='rm -rf u'
row 0 pack-chunks unpack parts -C u -T 8
before=:
row 0 pack-chunks verify parts --deep -T 8
row 0 pack-chunks list parts
mkdir -p "$repo" && cp parts/* "$repo"/ && start_hub
before='rm -rf f'
row 0 pack-chunks fetch hf:me/cache set --out f -T 8
before='rm -rf r'
row 0 repack-experts build ck r --levels 4 --granularity tensor-sym -T 8
row 0 repack-experts quantize floats r --to nvfp4 -T 8
expect 0 repack-experts quantize floats q --to nvfp4 -q
row "0 3" repack-experts finish q --from floats r -T 8
row 0 repack-experts translate packed r --gate -T 8
before=:
row 0 repack-experts gate ck -T 8
row "0 3" repack-experts analyze ck -T 8
make-trace t.npy --ticks 20000 --layers 4 --experts 64 --per-layer 4 -q || fail "make-trace"
row 0 size-tiers t.npy --policy engine,belady --slots 8,64

for program in build-planescache build-fp4-packs verify-ckpt-id pack-chunks repack-experts size-tiers; do
  commands=$($program --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z-]*\) .*/ \1/p')
  while IFS= read -r command; do
    case $rows in *"|$program$command|"*) ;; *) fail "$program$command has no row here" ;; esac
  done <<<"$commands"
done
finish
