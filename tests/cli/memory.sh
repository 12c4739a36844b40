# --memory is a cap: with experts of the real size (4096 x 2048) and any ranks, tiers and threads, the programs stay within
# 64 MiB above it.
source "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is needed to measure memory"
[ -z "${SANITIZED:-}" ] || skip "memory is not measured where a sanitizer adds its own"
cd "$WORK" || exit 1
cat >peak.py <<'EOF'
# Runs a command; prints the KiB that its largest process held at most.
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
EOF
capped() {  # capped MiB COMMAND...
  local cap=$1 peak; shift
  peak=$(python3 peak.py "$@" --memory "${cap}MiB" -q) || [ "$2" = analyze ] || { fail "$*"; return; }  # its verdict
  echo "$((peak / 1024)) MiB under --memory ${cap}MiB: $1 ${*:3}"
  [ "$peak" -le $(((cap + 64) * 1024)) ] || fail "$((peak / 1024)) MiB under --memory ${cap}MiB: $*"
}
# Holes are enough: memory does not depend on what the weights are.
for family in mxfp4 fp8 nvfp4; do
  make-checkpoint --family $family --layers 2 --first-dense 1 --experts 6 --hidden 4096 --intermediate 2048 --fill-layers none \
    -o ck-$family -q >/dev/null 2>log || { fail "no checkpoint: $(cat log)"; continue; }
done
for world in 1 4; do
  capped 256 build-planescache ck-mxfp4 -o c --store s --tiers base,delta,fp4,fp4q --ckpt-id $world --world $world -T 8
  rm -rf c s
done
capped 20 build-planescache ck-mxfp4 -o c --ckpt-id x -T 8
capped 5 build-fp4-packs --from-planescache c -o s --tiers base,delta,fp4,fp4q --reflink never -T 8
capped 2048 build-planescache ck-fp8 -o c --ckpt-id 8 --world 2 -T 4
capped 256 build-planescache ck-nvfp4 -o c --ckpt-id nv -T 4
# A file of 400 MB, in frames of 16 MiB; parts of a set, and what tar and zstd made with a window of 128 MiB.
yes 'a line that is no hole' | head -c 400000000 >large
capped 256 pack-chunks pack large --name set -o parts --part-size 20MB -T 8
capped 64 pack-chunks pack large --name set --stdout -T 8
capped 64 pack-chunks pack large --name nine -o nine --level 9 --frame-size 1MiB -T 8
capped 256 pack-chunks unpack parts -C u -T 8
capped 64 pack-chunks unpack parts -C u -T 8
capped 16 pack-chunks verify parts --hash both -T 8
capped 64 pack-chunks verify parts --deep -T 8
mkdir bare && mv parts/*.part.* bare
capped 64 pack-chunks unpack bare -C v -T 8
tar -c large | zstd -q -1 --long=27 >long.tar.zst
capped 300 pack-chunks unpack long.tar.zst -C w -T 8
for made in u v w; do same large $made/large; done
# Experts of floats, fused: 200 MB that are a hole.
python3 - <<'EOF'
import json, os, struct
E, I, H = 4, 2048, 4096
os.mkdir("ck-bf16")
json.dump({"num_hidden_layers": 1, "n_routed_experts": E, "hidden_size": H, "moe_intermediate_size": I}, open("ck-bf16/config.json", "w"))
stem, middle, end = "model.layers.0.mlp.experts.", E * 2 * I * H * 2, E * 3 * I * H * 2
text = json.dumps({stem + "gate_up_proj": {"dtype": "BF16", "shape": [E, 2 * I, H], "data_offsets": [0, middle]},
                   stem + "down_proj": {"dtype": "BF16", "shape": [E, H, I], "data_offsets": [middle, end]}}).encode()
with open("ck-bf16/model.safetensors", "wb") as file:
    file.write(struct.pack("<Q", len(text)) + text)
    file.truncate(8 + len(text) + end)
EOF
capped 20 repack-experts quantize ck-bf16 nvfp4 --to nvfp4 -T 8
capped 20 repack-experts quantize ck-bf16 mxfp4 --to mxfp4 -T 8
capped 100 repack-experts analyze ck-bf16 -T 8
expect 2 repack-experts quantize ck-bf16 none --to nvfp4 --memory 100kB
says 'too small here; the smallest that works is [0-9]+$'
expect 2 build-planescache ck-mxfp4 -o d --ckpt-id x --memory 100kB
says 'too small here; the smallest that works is [0-9]+$'
finish
