#!/usr/bin/env bash
# scripts/serve.sh: the exact command of each profile, a runtime that checks the mounts, links, odd paths, refusals.
. "$(dirname "$0")/common.sh"
mkdir -p "$WORK/usr/scripts" && cp "$SOURCE"/scripts/{common.sh,serve.sh,serve.py} "$WORK/usr/scripts/"
cp -r "$SOURCE/manifests/serve" "$SOURCE/manifests/profiles" "$WORK/usr/"
PATH=$WORK/usr/scripts:$PATH
cd "$WORK" || exit 1

# --- profiles and their schema ---
expect 0 serve.sh --list
for profile in flash-0731-max-quality flash-0731-quality-speed flash-0731-max-speed flash-host flash-0731-resident-split; do
  prints "^$profile$"
done
prints '^  48.9 tok/s; quality 12.27 of 30; .*93.8 of 96 GiB'
python3 - "$SOURCE" <<'PY' || fail "profiles and schema"
import glob, json, sys
try:
    import jsonschema
except ImportError:
    jsonschema = print("note: no jsonschema module, profiles are not held against the schema")
schema = json.load(open(sys.argv[1] + "/manifests/serve.schema.json"))
for path in glob.glob(sys.argv[1] + "/manifests/serve/*.json"):
    profile = json.load(open(path))
    assert path.endswith("/%s.json" % profile["name"])
    if jsonschema:
        jsonschema.validate(profile, schema)
PY

# --- a checkpoint, and files for resident and host, with names that need quoting ---
expect 0 make-checkpoint -o plain --layers 2 --experts 4 --progress none
DIR="$WORK/odd: a,b \"c\" \$x" && mkdir "$DIR"
build-planescache plain --out "$DIR/cache" --store "$DIR/packs" --for resident --ckpt-id "it's \$HOME" -q >/dev/null || fail build
build-planescache plain --out "$DIR/cache2" --store "$DIR/packs2" --for resident-split --world 2 --ckpt-id x -q >/dev/null || fail build
build-planescache plain --out "$DIR/cache" --store "$DIR/packs" --for host --ckpt-id "it's \$HOME" -q >/dev/null || fail build
# A Hugging Face cache: shards are links into blobs/, config.json a file.
SNAPSHOT="$DIR/hub/models--who--what/snapshots/0123456789012345678901234567890123456789"
mkdir -p "$SNAPSHOT" "$DIR/hub/models--who--what/blobs"
for file in plain/*; do
  name=$(basename "$file")
  cp "$file" "$DIR/hub/models--who--what/blobs/blob-$name"
  ln -s "../../blobs/blob-$name" "$SNAPSHOT/$name"
done

# --- a runtime: takes the command line apart as docker does, and looks into what the container would see ---
cat >docker <<'PY'
#!/usr/bin/env python3
import csv, json, os, posixpath, sys
words, mounts, environment, options = sys.argv[1:], {}, {}, []
assert words[:2] == ["run", "--rm"], words
words = words[2:]
while words[0].startswith("--"):
    name, value = words.pop(0), words.pop(0)
    if name == "--mount":
        fields = dict(field.partition("=")[::2] for field in next(csv.reader([value])))
        mounts[fields["target"]] = fields
    elif name == "--env":
        environment.update([value.split("=", 1)])
    else:
        options.append((name, value))

def host(path, depth=0):
    """Where a path of the container lies on the host, links followed inside the container."""
    assert depth < 40
    at = "/"
    parts = [part for part in path.split("/") if part]
    for index, part in enumerate(parts):
        at = posixpath.normpath(posixpath.join(at, part))
        real = outside(at)
        if real and os.path.islink(real):
            link = posixpath.normpath(posixpath.join(posixpath.dirname(at), os.readlink(real)))
            return host(posixpath.join(link, *parts[index + 1:]), depth + 1)
    return outside(at)

def outside(path):
    best = max((t for t in mounts if path == t or path.startswith(t + "/")), key=len, default=None)
    return best and "source" in mounts[best] and mounts[best]["source"] + path[len(best):]

for target, fields in mounts.items():
    assert fields["type"] == "tmpfs" or os.path.exists(fields["source"]), fields
assert "readonly" in mounts["/model"] and "readonly" not in mounts.get("/planescache", {}) and "readonly" not in mounts.get("/store", {})
seen = {name: os.path.getsize(host("/model/" + name)) for name in sorted(os.listdir(mounts["/model"]["source"]))}
json.dump({"options": options, "environment": environment, "image": words[0], "arguments": words[1:], "seen": seen,
           "planescache": host("/planescache") if "/planescache" in mounts else None,
           "store": mounts["/store"].get("source") if "/store" in mounts else None,
           "packs": sorted(n for n in mounts if n.startswith("/store/"))}, open("run.json", "w"))
PY
chmod +x docker; PATH=$WORK:$PATH

# --- the exact commands of the three profiles ---
FLASH=(--checkpoint "$SNAPSHOT" --planescache "$DIR/cache" --store "$DIR/packs")
for profile in flash-0731-max-quality flash-0731-quality-speed flash-0731-max-speed; do
  expect 0 serve.sh $profile "${FLASH[@]}"
  [ "$(wc -l <out)" = 1 ] || fail "not one line on standard output"
  says "warning: $profile was made for DeepSeek-V4-Flash-0731, this is another model"
  says 'note: .*288K'
  rm -f run.json; eval "$(cat out)" || fail "the printed line does not run"
  cp run.json printed.json
  rm -f run.json; expect 0 serve.sh $profile "${FLASH[@]}" --run docker
  same printed.json run.json
  python3 - $profile "$DIR" <<'PY' || fail "$profile is not what ENGINE.md section 5 says"
import json, os, sys
run, profile, directory = json.load(open("run.json")), sys.argv[1], sys.argv[2]
environment = {"VLLM_MOE_W2": "1", "VLLM_MOE_W2_PLANES_CACHE": "/planescache", "VLLM_MOE_W2_STORE_DIR": "/store",
    "VLLM_MOE_W2_CKPT_ID": "it's $HOME", "VLLM_MOE_W2_DELTA_POLICY": "freq", "VLLM_MOE_W2_DELTA_GB": "7", "VLLM_MOE_W2_GATE": "0",
    "VLLM_MOE_W2_FORCE_POOL": "1", "VLLM_MOE_W2_FORCE_RESIDENT": "1", "VLLM_USE_BREAKABLE_CUDAGRAPH": "0",
    "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS": "0", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
environment.update({"flash-0731-max-quality": {}, "flash-0731-quality-speed": {"VLLM_MOE_W2_PROMO_HYST": "8"},
    "flash-0731-max-speed": {"VLLM_MOE_W2_DELTA_POLICY": "need"}}[profile])
assert run["environment"] == environment, run["environment"]
arguments = ("--model /model --served-model-name deepseek-v4-flash --trust-remote-code --kv-cache-dtype fp8 --block-size 256 "
    "--max-model-len 262144 --gpu-memory-utilization 0.99 --kv-cache-memory-bytes 2147483648 --max-num-batched-tokens 1024 "
    "--max-num-seqs 1 --tokenizer-mode deepseek_v4 --no-scheduler-reserve-full-isl --compilation-config "
    '{"cudagraph_mode":"FULL_AND_PIECEWISE","custom_ops":["all"]} --port 8000').split(" ")
assert run["arguments"] == arguments, run["arguments"]
assert run["options"] == [["--gpus", "1"], ["--network", "host"], ["--ipc", "host"], ["--shm-size", "32g"]], run["options"]
assert run["image"] == "vllm-moet" and run["seen"]
assert os.path.samefile(run["planescache"], directory + "/cache") and os.path.samefile(run["store"], directory + "/packs")
for name, size in run["seen"].items():
    assert size == os.path.getsize("plain/" + name), name
PY
done

# --- host and resident-split; a world of two with each rank's packs in its own directory ---
expect 0 serve.sh flash-host "${FLASH[@]}" --run docker
python3 -c 'import json; e = json.load(open("run.json"))["environment"]
assert e["VLLM_MOE_W2_BASE_CACHE_GB"] == "62" and e["VLLM_MOE_W2_DELTA_GB"] == "11.5", e' || fail flash-host
expect 0 serve.sh flash-0731-resident-split --checkpoint plain --planescache "$DIR/cache2" --store "$DIR/packs2" --run docker
python3 -c 'import json; r = json.load(open("run.json")); assert r["environment"]["VLLM_MOE_W2_DELTA_SPLIT"] == "1"
assert r["arguments"][r["arguments"].index("--tensor-parallel-size") + 1] == "2" and ["--gpus", "2"] in r["options"], r' || fail split
mkdir "$DIR/disk0" "$DIR/disk1"
mv "$DIR"/packs2/*.rank0of2.* "$DIR/disk0" && mv "$DIR"/packs2/*.rank1of2.* "$DIR/disk1"
expect 0 serve.sh flash-0731-resident-split --checkpoint plain --planescache "$DIR/cache2" --store "0=$DIR/disk0,1=$DIR/disk1" --run docker
python3 -c 'import json; p = json.load(open("run.json"))["packs"]
assert any(".rank0of2.pack" in n for n in p) and any(".rank1of2.pack" in n for n in p) and any(".rank1of2.lock" in n for n in p), p' ||
  fail "packs of two directories"
expect 3 serve.sh flash-0731-resident-split --checkpoint plain --planescache "$DIR/cache2" --store "0=$DIR/disk1,1=$DIR/disk0"

# --- --set, arguments, podman, compose and env files ---
expect 0 serve.sh flash-0731-max-speed "${FLASH[@]}" --set VLLM_MOE_W2_DELTA_GB=5 --image engine:1 --run docker -- --port 9000
python3 -c 'import json; r = json.load(open("run.json")); assert r["environment"]["VLLM_MOE_W2_DELTA_GB"] == "5" and r["image"] == "engine:1"
assert r["arguments"][-2:] == ["--port", "9000"]' || fail "--set"
expect 3 serve.sh flash-0731-max-speed "${FLASH[@]}" --set VLLM_MOE_W2_DELTA_SPLIT=1
[ ! -s out ] || fail "a command is printed although another mode results, which these files do not serve"
expect 2 serve.sh flash-0731-max-speed "${FLASH[@]}" --set DELTA
expect 2 serve.sh flash-0731-max-speed "${FLASH[@]}" --set VLLM_MOE_W2_CKPT_ID=other
printf '#!/bin/sh\nprintf "%%s\\n" "$@"\n' >podman && chmod +x podman
expect 0 serve.sh flash-0731-max-speed "${FLASH[@]}" --run ./podman
prints '^nvidia.com/gpu=0$'
grep -q shm-size out && fail "podman refuses --shm-size with the host's IPC"
expect 0 serve.sh flash-0731-max-speed "${FLASH[@]}" --env-file
prints "^VLLM_MOE_W2_CKPT_ID=it's \\\$HOME$"
expect 0 serve.sh flash-0731-max-speed "${FLASH[@]}" --compose=compose.yaml
[ ! -s out ] || fail "--compose=FILE prints"
python3 - "$DIR" <<'PY' || fail "compose file"
import sys
try:
    import yaml
except ImportError:
    sys.exit(print("note: no yaml module, the compose file is not read"))
engine = yaml.safe_load(open("compose.yaml"))["services"]["engine"]
assert engine["environment"]["VLLM_MOE_W2_CKPT_ID"] == "it's $$HOME" and engine["shm_size"] == "32g", engine
assert [v["target"] for v in engine["volumes"]][:2] == ["/model", "/blobs"], engine["volumes"]
assert engine["volumes"][-1] == {"type": "bind", "source": sys.argv[1].replace("$", "$$") + "/packs", "target": "/store"}
PY

# --- refusals: nothing on standard output ---
refused() { expect "$@"; [ ! -s out ] || fail "printed something: $*"; }
refused 3 serve.sh flash-0731-resident-split "${FLASH[@]}"
refused 2 serve.sh fast "${FLASH[@]}"; says 'is not a profile; the profiles are: flash-0731-max-quality'
sed '/"network":/d' "$SOURCE/manifests/serve/flash-host.json" >less.json
refused 1 serve.sh ./less.json "${FLASH[@]}"; says "less.json is not a serving profile: it lacks 'network'"
refused 2 serve.sh flash-host --planescache "$DIR/cache"
refused 2 serve.sh flash-host "${FLASH[@]}" --wrold 2; says '^usage: serve.sh'
refused 2 serve.sh flash-host "${FLASH[@]}" --run docker --compose
refused 1 serve.sh flash-host "${FLASH[@]}" --run ./docker-is-not-here
says '^serve.sh: cannot run ./docker-is-not-here: No such file or directory$'
refused 1 serve.sh flash-host "${FLASH[@]}" --compose=nowhere/compose.yaml
says '^serve.sh: nowhere/compose.yaml.*: No such file or directory$'
truncate -s -1 "$DIR"/cache/v2/*/tp1-rank0/layer0.sc13.bin
refused 3 serve.sh flash-0731-max-speed "${FLASH[@]}"; says 'MISS  layer 0, sc13'
finish
