#!/usr/bin/env bash
# verify-ckpt-id check against a configuration of the engine: environment, env file, recipe.
. "$(dirname "$0")/common.sh"
MODEL=$GOLDEN/ds4-mini/checkpoint
cd "$WORK" || exit 1
for name in $(compgen -e VLLM_MOE_W2); do unset "$name"; done
build-planescache "$MODEL" --out c/planes --store c/packs --for resident --ckpt-id id -q >/dev/null || fail build
build-planescache "$MODEL" --out c/planes --store c/packs --for host --ckpt-id id -q >/dev/null || fail build
ENV=(--env VLLM_MOE_W2=1 --env VLLM_MOE_W2_CKPT_ID=id --env "VLLM_MOE_W2_PLANES_CACHE=$WORK/c/planes" --env "VLLM_MOE_W2_STORE_DIR= $WORK/c/packs ")
check() { verify-ckpt-id check --checkpoint "$MODEL" "$@"; }

expect 0 check "${ENV[@]}"
prints '^mode resident: '
prints '^delta pack, '
grep -q '^base pack' out && fail "a pack that the mode does not open is checked"
expect 0 check "${ENV[@]}" --env VLLM_MOE_W2_BASE_CACHE_GB=8 --env VLLM_MOE_W2_DELTA_GB=2
prints '^mode host: '; prints '^base pack, '; prints '^fp4 pack, '
expect 3 check "${ENV[@]}" --env VLLM_MOE_W2_DELTA_SPLIT=1
prints '^mode resident-split: '; prints 'differs in fp4_split: cache has false, engine would ask "w4q"'
expect 0 check "${ENV[@]}" --env VLLM_MOE_W2_DELTA_GB=0
prints '^mode resident-2bit: '; prints '4 parts each'
expect 3 check "${ENV[@]}" --env VLLM_MOE_W2=0
prints 'problem: VLLM_MOE_W2 is not 1'
expect 3 check "${ENV[@]}" --env VLLM_MOE_W2_DELTA_GB=lots
prints 'problem: VLLM_MOE_W2_DELTA_GB=lots is not a number'
expect 3 check "${ENV[@]}" --env VLLM_MOE_W2_ZERO_MODE=alt
expect 3 check "${ENV[@]}" --env "VLLM_MOE_W2_PLANES_CACHE=$WORK/c/planes "
prints 'white space, which the engine does not strip'
expect 3 check "${ENV[@]}" --env VLLM_MOE_W2_PLANES_CACHE=/nowhere
prints 'VLLM_MOE_W2_PLANES_CACHE=/nowhere: there is no such directory'
expect 3 check --env VLLM_MOE_W2=1 --env VLLM_MOE_W2_CKPT_ID=id --env "VLLM_MOE_W2_PLANE_CACHE=$WORK/c/planes" --store c/packs
prints 'VLLM_MOE_W2_PLANE_CACHE is not a variable of the engine, which ignores it; did you mean VLLM_MOE_W2_PLANES_CACHE'
prints 'problem: no planes cache \(VLLM_MOE_W2_PLANES_CACHE\), so the engine reads'
expect 3 check --env VLLM_MOE_W2=1 --env "VLLM_MOE_W2_PLANES_CACHE=$WORK/c/planes"
prints 'problem: VLLM_MOE_W2_CKPT_ID is not set'
expect 2 check "${ENV[@]}" --ckpt-id other
expect 2 check "${ENV[@]}" --for host
expect 2 check --env VLLM_MOE_W2
expect 3 check "${ENV[@]}" --env VLLM_MOE_W2_DRAFT=1 --env VLLM_MOE_W2_NUM_LAYERS=5

# Paths of a container: flags give the host's paths.
printf 'VLLM_MOE_W2=1\nVLLM_MOE_W2_CKPT_ID=id\nVLLM_MOE_W2_PLANES_CACHE=/planescache\nVLLM_MOE_W2_STORE_DIR=/store\n' >'env'
expect 0 check --env-file env --planescache c/planes --store c/packs
prints 'note: VLLM_MOE_W2_PLANES_CACHE=/planescache: looked for in c/planes'
printf 'VLLM_MOE_W2=1\nVLLM_MOE_W2_CKPT_ID="id"\n' >quoted
expect 3 check --env-file quoted --planescache c/planes
prints 'the quotes are part of the value'
echo 'export A=1' >exports; expect 2 check --env-file exports
VLLM_MOE_W2=1 VLLM_MOE_W2_CKPT_ID=id VLLM_MOE_W2_PLANES_CACHE=c/planes expect 0 check --from-environment
prints 'is relative'

# Recipes.
cat >recipe.yaml <<'YAML'
requires:
  gpus: 1
  vram_gb: 96
env:
  VLLM_MOE_W2: "1"
  VLLM_MOE_W2_PLANES_CACHE: "{planes_cache}/planes"
  VLLM_MOE_W2_STORE_DIR: "{planes_cache}/packs"
  VLLM_MOE_W2_DELTA_GB: "auto"
serve_args:
  - --trust-remote-code
  - --compilation-config {"cudagraph_mode":"FULL_AND_PIECEWISE","custom_ops":["all"]}
YAML
expect 0 check --recipe recipe.yaml --planescache c --ckpt-id id
prints '^mode resident: '; prints 'warning: VLLM_MOE_W2_CKPT_ID is not set'; prints 'note: memory: 2-bit planes'
sed -i 's/  - --trust-remote-code/  - --tensor-parallel-size 2/' recipe.yaml
expect 3 check --recipe recipe.yaml --planescache c --ckpt-id id
prints 'differs in world: cache has 1, engine would ask 2'
expect 3 check --recipe recipe.yaml --planescache c --ckpt-id id --world 1
prints 'problem: the server is started with --tensor-parallel-size 2, the files asked for are of world 1'
expect 3 check --recipe recipe.yaml --ckpt-id id
prints 'say with --planescache what \{planes_cache\} stands for'
echo 'a: [' >bad.yaml
expect 1 check --recipe bad.yaml --planescache c
says 'cannot be read as YAML: line '

# Memory.
expect 3 check "${ENV[@]}" --gpu-memory 1GiB
prints 'problem: not enough GPU memory: .*pools 2.00 GiB.*KV cache'
expect 0 check "${ENV[@]}" --gpu-memory 96GiB --json
python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["mode"] == "resident" and d["problems"] == [], d
assert any("memory" in n for n in d["notes"]) and d["environment"]["VLLM_MOE_W2_STORE_DIR"].endswith("/c/packs"), d' out || fail "--json"

# For eval: false where it fails, help not on standard output.
for wrong in "--for host-split" "--bogus" "--env-file /nowhere"; do
  # shellcheck disable=SC2086
  check --planescache c/planes --store c/packs --print-env $wrong >out 2>err && fail "$wrong is fine"
  [ "$(cat out)" = false ] || fail "--print-env $wrong printed $(cat out)"
  [ -s err ] || fail "--print-env $wrong says nothing"
done
# What the shell has set before, and eval would leave.
VLLM_MOE_W2_DELTA_SPLIT=1 VLLM_MOE_W2_GATE=0 VLLM_MOE_W2_CKPT_ID=old expect 0 check --planescache c/planes --store c/packs --for resident --print-env
says '^VLLM_MOE_W2_DELTA_SPLIT=1 is set here already and is not part of what is printed: unset it'
grep -q 'GATE\|CKPT_ID' err && fail "what is printed, or decides nothing, is not left over: $(cat err)"
VLLM_MOE_W2_DELTA_SPLIT=1 expect 0 check --planescache c/planes --store c/packs --for resident --print-env=docker
grep -q DELTA_SPLIT err && fail "an env file has its own environment"
# The engine strips the name of the directory of packs and would look elsewhere; a link to it serves.
mv c/packs 'c/packs ' && ln -s 'packs ' c/link
expect 2 check --planescache c/planes --store 'c/packs ' --print-env
[ "$(cat out)" = false ] && says 'c/packs : ends with white space, which the engine strips' || fail "a directory that the engine cannot name"
expect 0 check --planescache c/planes --store c/link --print-env
expect 0 check --planescache c/planes --store 'c/packs ' --for resident-2bit --print-env
rm c/link && mv 'c/packs ' c/packs
expect 0 check --print-env --help
[ ! -s out ] || fail "help goes where eval reads"
says 'print-env'

# Identities.
for id in ' id' 'id ' $'id\n' $'\u00a0id'; do
  expect 2 build-planescache "$MODEL" --out none --ckpt-id "$id"
  says 'begins or ends with white space|control characters'
  expect 2 verify-ckpt-id check --planescache c/planes --ckpt-id "$id"
  expect 2 verify-ckpt-id rekey --from id --to "$id" --planescache c/planes
  expect 2 build-fp4-packs --from-planescache c/planes --out none --ckpt-id "$id"
done
absent none
cp -r "$MODEL" model && chmod -R u+w model
expect 0 verify-ckpt-id id model --manifest-v1 --no-content
python3 - model "$(cat out)" <<'PY' || fail "--manifest-v1"
import hashlib, json, os, sys
path, found = sys.argv[1:]
read = lambda name: open(os.path.join(path, name), "rb").read()
h = hashlib.sha256(b"vllm-moet-model-manifest-v1\0" + hashlib.sha256(read("config.json")).digest())
index = read("model.safetensors.index.json")
h.update(hashlib.sha256(index).digest())
for name in sorted(set(json.loads(index)["weight_map"].values())):
    h.update(json.dumps({"name": name, "size": len(read(name)), "content_sha256": hashlib.sha256(read(name)).hexdigest()},
                        sort_keys=True, separators=(",", ":")).encode())
assert h.hexdigest() == found, (h.hexdigest(), found)
PY
absent model/.vllm-moet-snapshot.json
expect 0 verify-ckpt-id id model --manifest-v1 --write-marker --served-path who/what --revision 0123456789012345678901234567890123456789
python3 - "$(sed -n 's/^manifest //p' out)" <<'PY' || fail "--write-marker"
import json, sys
assert open("model/.vllm-moet-snapshot.json").read() == json.dumps({"schema": 2, "repo": "who/what",
    "revision": "0123456789012345678901234567890123456789", "manifest_sha256": sys.argv[1]}, sort_keys=True)
PY
finish
