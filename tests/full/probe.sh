# scripts/probe.py against llama.cpp's own server, with a model of random weights: it answers nothing sensible, and twice the
# same. What is right and what is wrong is for the scripted server of tests/cli/probe.sh.
. "$SOURCE/tests/cli/common.sh"
python_with xllamacpp gguf
cd "$WORK" || exit 1
server=
trap 'kill $server 2>/dev/null; rm -rf "$WORK"' EXIT
expect 0 python "$SOURCE/tests/tools/tiny_gguf.py" tiny.gguf
python "$SOURCE/tests/tools/llama_server.py" tiny.gguf port >server.log 2>&1 & server=$!
for _ in $(seq 600); do [ -s port ] && break; kill -0 $server 2>/dev/null || break; sleep 0.1; done
[ -s port ] || { tail -5 server.log; fail "the server does not start"; finish; }
probe() { timeout 300 python3 "$SOURCE/scripts/probe.py" -q --url "http://127.0.0.1:$(cat port)" --needle-words 50 --repeat 1 "$@"; }

expect 0 probe --record first.json
prints '^acceptance: skipped: the server.s /metrics has no counters of drafts'
prints '^coherence: 0 of 12 sound$'; prints '^  prompt 1: (broken characters|empty|loop)'
prints '^arithmetic: 0 of 5 right$'; prints '^needle: 0 of 5 found$'; prints '^speed: [0-9.]+ tokens/s$'
expect 0 probe --compare first.json --only coherence,arithmetic,needle
prints '^same: coherence equal_answers 12, reference 12'; prints '^verdict: same'
expect 0 probe --json --only arithmetic
python3 -c 'import json, sys; d = json.load(open("out")); assert d["ok"] and d["runs"][0]["arithmetic"]["right"] == 0, d' || fail "--json"
finish
