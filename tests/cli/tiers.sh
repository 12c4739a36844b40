# docs/TIERS.md: its commands, one after the other, with a synthetic session and scripted servers in place of the engine.
# Heat files: what the engine reads (ENGINE.md section 2).
. "$SOURCE/tests/cli/common.sh"
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint
server=
trap 'kill $server 2>/dev/null; rm -rf "$WORK"' EXIT

# --- the page ---
mkdir -p "models and more" bin
cp -r "$CK" "models and more/flash"
CACHES="$WORK/caches, large"
expect 0 build-planescache "models and more/flash" -o "$CACHES/flash/planescache" --store "$CACHES/flash/packs" --for resident --ckpt-id flash -q
expect 0 make-trace "$CACHES/flash/packs/session.npy" --ticks 400 --layers 2 --experts 3 --per-layer 2 -q
printf '#!/bin/sh\nprintf "%%s\\n" "$@" >"%s/served"\n' "$WORK" >bin/docker && chmod +x bin/docker
PATH=$WORK/bin:$PATH
python3 "$SOURCE/tests/tools/chat_server.py" port & server=$!
for _ in $(seq 100); do [ -s port ] && break; sleep 0.05; done
sed -n 's/^    //p' "$SOURCE/docs/TIERS.md" |
  sed "s|/models/flash|'$WORK/models and more/flash'|g; s|/caches/flash\([a-z./]*\)|'$CACHES/flash\1'|g
       s|^\./scripts/probe.py|& -q --only coherence,arithmetic --url http://127.0.0.1:$(cat port)|; s|^\./scripts/|'$SOURCE'/scripts/|" >commands
[ "$(wc -l <commands)" = 7 ] || fail "the page has $(wc -l <commands) commands"
while read -r line; do
  rm -f served
  printf '%s\n' "$line" >one
  expect 0 bash -e one || { cat one; continue; }
  case $line in
    *serve.sh*) grep -q '^VLLM_MOE_W2_DELTA_\(CAPTURE=/store/session.npy\|GB=7\)$' served || fail "not served so: $line" ;;
    *--report*) prints 'DELTA_GB'; [ -s tiers.html ] || fail "no report" ;;
    *--policy*) prints 'belady' ;;
    *--write-heat*) prints '^heat written: ' ;;
    *--compare*) prints '^verdict: same' ;;
  esac
done <commands
[ -s "$CACHES/flash/packs/pool-heat.delta.rank0of1.json" ] || fail "no heat file"

# --- heat files of several packs, ranks and sessions ---
for world in 1 2; do
  expect 0 build-planescache "$CK" -o c$world --store s$world --tiers base,fp4 --world $world --ckpt-id x -q
done
expect 0 make-trace t.npy --ticks 90 --layers 2 --experts 3 --per-layer 2 --sessions 2 --drift 0.2 -q
for world in 1 2; do expect 0 size-tiers t.npy.0 t.npy.1 --write-heat s$world -q; done
python3 - <<'PY' || fail "heat files are not the engine's"
import collections, glob, json, struct
uses = collections.Counter()
for session in (0, 1):
    data = open("t.npy.%d" % session, "rb").read()
    at = 10 + struct.unpack("<H", data[8:10])[0]
    rows = struct.iter_unpack("<iii", data[at:])
    uses.update((layer, expert) for _, layer, expert in {*rows})  # a pair counts once a tick
order = [list(pair) for pair in sorted(uses, key=lambda pair: (-uses[pair], pair))]
found = 0
for world in (1, 2):
    for sidecar in glob.glob("s%d/*of%d.json" % (world, world)):
        if "pool-heat" in sidecar: continue
        pack = json.load(open(sidecar))
        rank = int(sidecar.split("rank")[1][0]) if "rank" in sidecar else 0
        heat = open(sidecar[:-5] + ".pack.heat.json").read()
        assert heat == json.dumps({"version": 1, "keys": order}), heat[:200]
        pool = "s%d/pool-heat.%s.rank%dof%d.json" % (world, pack["tag"], rank, world)
        assert open(pool).read() == json.dumps({"meta": {"version": "pool-heat-v1", "tag": pack["tag"], "n_layers": pack["n_layers"],
            "E": pack["E"], "slot_bytes": pack["slot_bytes"]}, "owners": order}), pool
        found += 1
assert found == 6, found
PY
# Heat files are refused for another model, and without packs.
expect 0 make-trace other.npy --ticks 20 --layers 2 --experts 4 --per-layer 4 -q
expect 3 size-tiers other.npy --write-heat s1 && says 'rows for 3 layers of 3 experts, but the trace uses expert 3 of layer [01]: it is of another model'
expect 1 size-tiers t.npy.0 --write-heat c1 && says 'holds no pack'
expect 0 verify-ckpt-id check --planescache c1 --store s1 --for host
finish
