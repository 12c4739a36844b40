# scripts/probe.py against a scripted server.
. "$SOURCE/tests/cli/common.sh"
command -v python3 >/dev/null || skip "python3 is not installed"
cd "$WORK" || exit 1
probe() { python3 "$SOURCE/scripts/probe.py" -q --url "http://127.0.0.1:$port" "$@"; }
serve() {  # serve MODE...: another server, which answers so
  rm -f port; [ -z "${server:-}" ] || kill "$server" 2>/dev/null
  python3 "$SOURCE/tests/tools/chat_server.py" port "$@" & server=$!
  for _ in $(seq 100); do [ -s port ] && break; sleep 0.05; done
  port=$(cat port)
}
trap 'kill ${server:-} 2>/dev/null; rm -rf "$WORK"' EXIT

serve
expect 0 probe --record good.json
prints '^acceptance: length 2.40, rate 70.0%'; prints '^coherence: 12 of 12 sound'; prints '^arithmetic: 5 of 5 right'
prints '^needle: 10 of 10 found'; prints '^speed: [0-9.]+ tokens/s'
expect 0 probe --compare good.json --only coherence,arithmetic,needle,acceptance
prints '^verdict: same'
expect 0 probe --json --only arithmetic
python3 -c 'import json, sys; d = json.load(sys.stdin); assert d["ok"] and d["runs"][0]["arithmetic"]["right"] == 5' <out || fail "--json"

serve dumb
expect 3 probe --compare good.json --only coherence,arithmetic,needle,acceptance
prints '^worse: arithmetic right 0, reference 5'; prints '^worse: needle found 0'; prints '^worse: acceptance accepted_length'; prints '^verdict: worse'
prints '4000 words, depth 50%: lost'
serve loop
expect 3 probe --compare good.json --only coherence
prints '^  prompt 12: loop'; prints '^worse: coherence sound 0, reference 12'
serve nodrafts
expect 0 probe --only acceptance; prints '^acceptance: skipped: '
kill "$server"; wait "$server" 2>/dev/null
expect 1 probe --only arithmetic; says '^probe.py: http://127.*: Connection refused$'
echo '{}' >bad.json
expect 1 probe --compare bad.json; says 'is not a reference'
expect 2 probe --only nothing; expect 2 probe --repeat 0; expect 2 probe --url file:///etc/passwd
finish
