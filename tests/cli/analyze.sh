# repack-experts analyze: figures, verdict, exit status, report.
. "$SOURCE/tests/cli/common.sh"
MINI=$GOLDEN/ds4-mini/checkpoint

expect 0 repack-experts analyze "$MINI"
prints '^18 expert tensors, MXFP4 family$'
prints '^verdict: the 2-bit codebook fits'
expect 0 repack-experts analyze "$MINI" --json
grep -v '"seconds"' "$WORK/out" >"$WORK/all.json"
python3 - "$GOLDEN/ds4-mini/bias.json" "$WORK/all.json" <<'PY' || fail "figures differ from the reference's"
import json, sys
golden, got = (json.load(open(path)) for path in sys.argv[1:])
assert got["tensors"].keys() == golden.keys()
for tensor, figures in golden.items():
    for name, value in figures.items():
        assert got["tensors"][tensor][name] == value, (tensor, name, got["tensors"][tensor][name], value)
PY
for isa in scalar avx2 avx512 neon; do
  repack-experts analyze "$MINI" --json -T 1 --isa $isa > "$WORK/$isa.json" 2> "$WORK/err" || { says 'lacks|cannot|not' ; continue; }
  sed -i '/"seconds"/d' "$WORK/$isa.json"
  same "$WORK/$isa.json" "$WORK/all.json"
done

expect 0 repack-experts analyze "$MINI" --layers 0
prints '^9 expert tensors'
expect 2 repack-experts analyze "$MINI" --layers 1-x
expect 2 repack-experts analyze "$MINI" --layers 7
expect 2 repack-experts analyze "$MINI" --memory 1kB
says 'smallest that works'

# Zeros of one sign: mode auto repairs what mode sign would do.
expect 3 repack-experts analyze "$GOLDEN/kimi-nvfp4-mini/checkpoint"
prints 'zero mode: sign 0.047043, alt 0.007421, auto 0.007726'
prints '^FAIL mean .bias. of .* is 0.007726; it must be below 0.005'
prints '^verdict: .* NOT fit'
says 'must be below 0.005'
expect 1 repack-experts analyze "$WORK"

# A weight that is not finite is named.
cp -r "$GOLDEN/glm-fp8-mini/checkpoint" "$WORK/nan"
python3 - "$WORK/nan" <<'PY'
import glob, json, struct, sys
for path in sorted(glob.glob(sys.argv[1] + "/*.safetensors")):
    with open(path, "r+b") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header = json.loads(f.read(n))
        for name, tensor in header.items():
            if "layers.2.mlp.experts.1.up_proj.weight" == name.removeprefix("model."):
                f.seek(8 + n + tensor["data_offsets"][0] + 5)
                f.write(b"\x7f")
                sys.exit()
sys.exit("no such tensor")
PY
expect 1 repack-experts analyze "$WORK/nan"
says "layers.2.mlp.experts.1.up_proj.weight.*element \[0, 5\] is not finite"

if repack-experts analyze -q "$MINI" --report "$WORK/report.html" > /dev/null 2> "$WORK/err"; then
  grep -q 'layers.1.ffn.experts.2.w2.weight' "$WORK/report.html" || fail "the report lacks the tensors"
  grep -Eq '(src|href)=' "$WORK/report.html" && fail "the report refers to something outside"
else
  says 'install the package libjs-chart.js'
fi
finish
