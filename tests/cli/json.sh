# --json: one document of one shape, from every command, on success and on failure.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is needed to check documents against the schema"
. "$SOURCE/tests/tools/hub.sh"
CK=$GOLDEN/ds4-mini/checkpoint
worked='|' failed='|'  # the commands whose document was looked at where it ended with 0, and where it did not

# document STATUS COMMAND...: runs it with --json; what it prints fits the schema and says this exit status.
document() {
  expect "$@" --json
  python3 "$SOURCE/tests/tools/check_schema.py" "$SOURCE/manifests/result.schema.json" "$WORK/out" ||
    { fail "not as the schema says: $*"; head -c 600 "$WORK/out"; }
  python3 - "$WORK/out" "$1" <<'END' || fail "exit in the document: $*"
import json, sys
document = json.load(open(sys.argv[1]))
sys.exit(document["exit"] != int(sys.argv[2]) or document["ok"] != (sys.argv[2] == "0"))
END
  local command; command=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["command"])' "$WORK/out")
  if [ "$1" = 0 ]; then worked+="$command|"; else failed+="$command|"; fi
}
has() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$WORK/out" "$1" || fail "$1 does not hold: $(head -c 600 "$WORK/out")"; }

document 0 build-planescache "$CK" -o c --ckpt-id a -n
document 0 build-planescache "$CK" -o c --store s --ckpt-id a
has 'd["layers_converted"] == 2 and d["bytes_read"] > 10000 and d["bytes_written"] > 10000 and d["complete"]'
document 2 build-planescache "$CK" -o c --ckpt-id a --fp4 nibbel
has 'd["error"]["code"] == "usage" and "did you mean nibble?" in d["error"]["message"]'
document 1 build-planescache nowhere -o c
has 'd["command"] == "build-planescache" and d["error"]["path"] == "nowhere"'
document 2 build-planescache "$CK" -o c --no-such
document 0 build-fp4-packs --from-planescache c -o s2 --tiers delta
document 0 build-fp4-packs "$CK" -o s2 --tiers base --ckpt-id a
document 1 build-fp4-packs --from-planescache nowhere -o s2
cp -r "$CK" other && chmod -R u+w other && printf x | dd of="$(echo other/model-00003*)" bs=1 seek=100000 conv=notrunc status=none
document 2 build-fp4-packs other -o s2 --tiers base --ckpt-id a
has 'd["error"]["code"] == "other-source"'
document 0 verify-ckpt-id id "$CK" --served-path /model
document 1 verify-ckpt-id id nowhere
document 0 verify-ckpt-id check --planescache c --store s --tiers base,delta,fp4
document 0 verify-ckpt-id check --planescache c --checkpoint "$CK" --sample 2
document 3 verify-ckpt-id check --planescache c --ckpt-id b
document 0 verify-ckpt-id list --planescache c --store s
document 1 verify-ckpt-id list --planescache nowhere
document 0 verify-ckpt-id prune --keep a --planescache c
has '"next" not in d'
document 2 verify-ckpt-id prune --keep other --planescache c
document 0 verify-ckpt-id rekey --from a --to b --planescache c -n
document 2 verify-ckpt-id rekey --from a --to '' --planescache c
document 0 verify-ckpt-id manifest "$CK" -o m.json
document 1 verify-ckpt-id manifest nowhere -o n.json
document 0 verify-ckpt-id verify m.json --root "$CK"
cp -r "$CK" damaged; chmod -R u+w damaged; printf x >>damaged/config.json
document 3 verify-ckpt-id verify m.json --root damaged
has 'd["differences"][0]["kind"] == "size"'
document 0 verify-ckpt-id audit "$CK"
document 3 verify-ckpt-id audit damaged --against "$GOLDEN/glm-fp8-mini/checkpoint"
document 1 verify-ckpt-id audit nowhere
document 0 pack-chunks pack s --name set --out parts
document 1 pack-chunks pack nowhere --name set --out parts
document 0 pack-chunks pack s --name set2 --out parts -n
document 0 pack-chunks verify parts --name set
document 0 pack-chunks list parts --name set
document 0 pack-chunks unpack parts --name set -C o
document 0 pack-chunks unpack parts --name set -C o -n
cp -r parts cut; printf x | dd of="$(echo cut/set.tar.zst.part.000)" bs=1 seek=99 conv=notrunc status=none
document 3 pack-chunks verify cut --name set
document 3 pack-chunks unpack cut --name set -C o2
document 1 pack-chunks list nowhere
document 0 repack-experts build "$CK" r --levels 4 --granularity tensor
document 1 repack-experts build nowhere r2 --levels 4 --granularity tensor
document 0 repack-experts gate "$CK"
document 1 repack-experts gate nowhere
document 1 repack-experts analyze nowhere

# From a hub: a set of ours, with and without what is there already, one that is not there, and one with other contents.
cp parts/*set.* $repo; start_hub
document 0 pack-chunks fetch hf:me/cache set --out f -n
document 0 pack-chunks fetch hf:me/cache set --out f --parts kept
has 'd["kind"] == "frames" and d["fetched_bytes"] > 10000 and d["next"].startswith("verify-ckpt-id check --store f/s")'
document 0 pack-chunks fetch hf:me/cache set --out f --parts kept
has 'd["fetched_bytes"] == 0'
document 1 pack-chunks fetch hf:me/cache none --out f
document 2 pack-chunks fetch ftp://nowhere set --out o
cp cut/*.part.000 $repo
document 3 pack-chunks fetch hf:me/cache set --out f2

# Checkpoints of floats, and as compressed-tensors writes them.
python3 - <<'END' || fail "cannot make checkpoints"
import json, os, random, struct
draw = random.Random(7)
BYTES = {"BF16": lambda n: b"".join(bytes([draw.randrange(256), draw.choice((0x3d, 0xbd))]) for _ in range(n // 2)),
         "U8": lambda n: draw.randbytes(n), "F8_E4M3": lambda n: bytes(0x30 + draw.randrange(8) for _ in range(n)),
         "F8_E8M0": lambda n: bytes(draw.choice((100, 127)) for _ in range(n)), "F32": lambda n: struct.pack("<f", 1) * (n // 4)}
def checkpoint(directory, matrix, more):
    os.mkdir(directory)
    tensors = [("model.layers.0.mlp.gate.weight", "BF16", [2, 128]), ("model.embed_tokens.weight", "BF16", [8, 128]),
               ("lm_head.weight", "BF16", [8, 128]), ("model.norm.weight", "BF16", [128])]
    for e in range(2):
        for p, n, k in ("gate", 64, 128), ("up", 64, 128), ("down", 128, 64):
            tensors += [(f"model.layers.0.mlp.experts.{e}.{p}_proj.{end}", dtype, shape) for end, dtype, shape in matrix(n, k)]
    header, data = {}, b""
    for name, dtype, shape in tensors:
        size = {"BF16": 2, "F32": 4}.get(dtype, 1)
        for n in shape: size *= n
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += BYTES[dtype](size)
    text = json.dumps(header).encode()
    open(directory + "/model.safetensors", "wb").write(struct.pack("<Q", len(text)) + text + data)
    json.dump({"model_type": "glm_moe_dsa", "architectures": ["GlmMoeDsaForCausalLM"], "num_hidden_layers": 1, "n_routed_experts": 2,
               "hidden_size": 128, "moe_intermediate_size": 64, **more}, open(directory + "/config.json", "w"))
    json.dump({"version": "1.0", "truncation": {"max_length": 512}, "padding": None}, open(directory + "/tokenizer.json", "w"))
    json.dump({}, open(directory + "/tokenizer_config.json", "w"))
def packed(directory, form, strategy, group, matrix):
    weights = {"num_bits": 4, "type": "float", "strategy": strategy, "group_size": group, "symmetric": True, "dynamic": False}
    checkpoint(directory, matrix, {"quantization_config": {"quant_method": "compressed-tensors", "format": form,
        "ignore": ["model.layers.0.mlp.gate", "lm_head"],
        "config_groups": {"group_0": {"format": form, "targets": ["Linear"], "weights": weights, "input_activations": None}}}})
checkpoint("floats", lambda n, k: [("weight", "BF16", [n, k])], {})
packed("nvfp4", "nvfp4-pack-quantized", "tensor_group", 16, lambda n, k: [("weight_packed", "U8", [n, k // 2]),
       ("weight_scale", "F8_E4M3", [n, k // 16]), ("weight_global_scale", "F32", [1])])
packed("mxfp4", "mxfp4-pack-quantized", "group", 32, lambda n, k: [("weight_packed", "U8", [n, k // 2]), ("weight_scale", "F8_E8M0", [n, k // 32])])
END
document 0 repack-experts quantize floats q --to nvfp4 -n
document 0 repack-experts quantize floats q --to nvfp4
has 'd["next"] == "verify-ckpt-id audit q --against floats" and d["expert_weights"] == 6'
document 1 repack-experts quantize "$CK" q2 --to nvfp4
document 0 repack-experts translate nvfp4 t --gate
has 'd["gate"]["passed"] and sum(d["modules"].values()) == 6'
document 3 repack-experts translate mxfp4 t2 --gate --lossy
has 'not d["gate"]["passed"] and d["gate"]["differences"]'
document 1 repack-experts translate "$CK" t3
document 0 repack-experts finish q --from floats f3
has 'd["steps"] and not d["audit"]["failed"] and d["next"].startswith("build-planescache f3 ")'
document 3 repack-experts finish q --from "$CK" f4
document 1 repack-experts finish nowhere --from floats f5
document 3 repack-experts analyze floats
document 0 repack-experts analyze "$CK"
document 0 verify-ckpt-id verify c s
cp -r c damaged-c; printf x >>"$(echo damaged-c/v2/*/*/layer0.fp2.bin)"
document 3 verify-ckpt-id verify damaged-c s
document 0 verify-ckpt-id repair c s -n
rm c/v2/*/*/meta.json
document 3 verify-ckpt-id repair c -n
document 0 verify-ckpt-id repair c
has 'd["next"] == "verify-ckpt-id check --planescache %s/c --ckpt-id a --world 1 --zero-mode auto" % __import__("os").getcwd()'
document 0 verify-ckpt-id repair c
has '"next" not in d'

# Names that are not UTF-8 are shown as messages show them, never an error of their own.
odd=$(printf 'odd\377name')
mkdir -p "$odd/tree"; cp -r "$CK" "$odd/ck"; printf x >"$odd/tree/file"; printf y >"$odd/tree/$odd"
document 0 build-planescache "$odd/ck" -o "$odd/c" --store "$odd/s" --ckpt-id a
document 0 build-fp4-packs --from-planescache "$odd/c" -o "$odd/s2" --tiers delta
document 0 verify-ckpt-id check --planescache "$odd/c" --store "$odd/s" --checkpoint "$odd/ck" --sample 1
document 0 verify-ckpt-id list --planescache "$odd/c" --store "$odd/s"
document 0 verify-ckpt-id prune --keep a --planescache "$odd/c"
document 0 verify-ckpt-id rekey --from a --to b --planescache "$odd/c" -n
document 0 verify-ckpt-id id "$odd/ck" --served-path /model
document 0 pack-chunks pack "$odd/ck" --name set --out "$odd/parts"
document 0 pack-chunks unpack "$odd/parts" -C "$odd/o"
document 0 pack-chunks verify "$odd/parts" && document 0 pack-chunks list "$odd/parts"
document 0 verify-ckpt-id verify "$odd/c" && document 0 verify-ckpt-id repair "$odd/c"
verify-ckpt-id audit "$odd/ck" >/dev/null 2>&1; document $? verify-ckpt-id audit "$odd/ck"
repack-experts analyze "$odd/ck" >/dev/null 2>&1; document $? repack-experts analyze "$odd/ck"
document 2 pack-chunks fetch ftp://nowhere set --out "$odd/f"
document 1 size-tiers "$odd/none.npy"
document 1 verify-ckpt-id verify "$odd/none.json"
has 'd["error"]["code"] == "not-found" and "\\xff" in d["error"]["path"]'
document 0 repack-experts build "$odd/ck" "$odd/r" --levels 4 --granularity tensor
document 0 repack-experts gate "$odd/ck"
document 1 verify-ckpt-id manifest "$odd/tree" -o "$odd/m.json"

# size-tiers, and what a dry run of packs from a cache says.
expect 0 make-trace t.npy --ticks 50 --layers 2 --experts 3 --per-layer 2 -q
document 0 size-tiers t.npy --config "$CK" --policy engine --slots 1,4 --gpu-memory 96G
document 0 size-tiers t.npy --write-heat s
has 'd["next"] == "verify-ckpt-id list --store s" and d["heat_files"]'
document 1 size-tiers nowhere.npy
document 0 build-fp4-packs --from-planescache c -o s3 -n
has 'd["outlook"]["bytes_to_write"] > 0 and d["outlook"]["ckpt_id"] == "a" and d["peak_memory_bytes"] > 0'
document 0 build-fp4-packs --from-planescache c -o s3 -n --estimate
has 'd["outlook"]["estimate"]["seconds"] >= 0'
# The command that comes next.
document 0 build-planescache "$CK" -o c --ckpt-id a
has '"verify-ckpt-id check --planescache c --ckpt-id a " in d["next"]'

# Caches that are not kept are gone, and the next command shows what is left.
document 0 build-planescache "$CK" -o c --ckpt-id z
document 0 verify-ckpt-id prune --keep z --planescache c --force
has 'd["removed"] and d["next"] == "verify-ckpt-id list --planescache c"'
document 0 verify-ckpt-id prune --keep z --planescache c --force
has '"next" not in d'

# Every subcommand that --help names was looked at, where it went well and where it did not.
for program in build-planescache build-fp4-packs verify-ckpt-id pack-chunks repack-experts size-tiers; do
  commands=$($program --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z0-9-]*\) .*/\1/p')
  for command in ${commands:-""}; do
    case $worked in *"|$program${command:+ $command}|"*) ;; *) fail "no document of $program $command that worked was looked at" ;; esac
    case $failed in *"|$program${command:+ $command}|"*) ;; *) fail "no document of $program $command that failed was looked at" ;; esac
  done
done
finish
