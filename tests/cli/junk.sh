# Every reader of foreign JSON, given 100 MB of junk under --memory 64MiB: refused in bounded memory and time.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is needed to measure memory"
[ -z "${SANITIZED:-}" ] || skip "memory is not measured where a sanitizer adds its own"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint
cat >peak.py <<'END'
import resource, subprocess, sys
try: status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=open("said", "w"), timeout=60).returncode
except subprocess.TimeoutExpired: status = "timeout"
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, status)
END
python3 - <<'END'
n = 100_000_000
open("numbers", "w").write("[" + "1," * (n // 2) + "1]")
open("string", "w").write('{"a": "' + "x" * n + '"}')
open("keys", "w").write("{" + ",".join('"%d": [[]]' % i for i in range(n // 16)) + "}")
open("open", "w").write('{"version": 1, "kind": "tree", "tool": "t", "files": [' + '{"path": "a"},' * (n // 14))
END
# junk FILE COMMAND...: the file is made each kind of junk, and the command has to refuse it with a sentence. 0 is right
# where it may be passed over.
tried=0 memory="--memory 64MiB -q" kinds="numbers string keys open"
junk() {
  local file=$1 kind peak status; shift
  for kind in $kinds; do
    (umask 077; mkdir -p "$(dirname "$file")"); rm -f "$file"; ln "$kind" "$file" 2>/dev/null || cp "$kind" "$file"
    read -r peak status < <(python3 peak.py "$@" $memory)
    [ "$peak" -le 128 ] || fail "$peak MiB for $kind in $file: $*"
    case $status in
      0 | 3) ;;
      1 | 2) grep -qE '^[a-z0-9.-]+: .' said || fail "no sentence for $kind in $file: $*" ;;
      *) fail "status $status for $kind in $file: $*" ;;
    esac
    [ "$(wc -c <said)" -lt 4000 ] || fail "$(wc -c <said) bytes are said of $kind in $file: $*"
  done
  rm -f "$file"; tried=$((tried + 1))
}
build-planescache "$CK" -o c --store s --tiers base --ckpt-id a -q >/dev/null
D=$(echo c/v2/*/tp1-rank0) P=$(echo s/*.pack)
fresh() { rm -rf d; mkdir d; cp -r c s d/; }
fresh; junk "d/$D/manifest.json" verify-ckpt-id list --planescache d/c
fresh; junk "d/$D/manifest.json" verify-ckpt-id verify d
fresh; junk "d/$D/manifest.json" verify-ckpt-id verify "d/$D/manifest.json"
fresh; junk "d/$D/manifest.json" build-fp4-packs --from-planescache d/c -o d/new
fresh; junk "d/$D/manifest.json" build-planescache "$CK" -o d/c --ckpt-id a -n
fresh; junk "d/$D/manifest.json" verify-ckpt-id rekey --from a --to b --planescache d/c -n
fresh; junk "d/$D/meta.json" verify-ckpt-id check --planescache d/c
fresh; junk "d/$D/meta.json" verify-ckpt-id prune --keep x --planescache d/c
fresh; (umask 077; mkdir -p "d/$D/.planesmith"); junk "d/$D/.planesmith/layer0.json" build-planescache "$CK" -o d/c --ckpt-id a
fresh; junk "d/${P%.pack}.json" verify-ckpt-id check --store d/s
fresh; junk "d/${P%.pack}.json" build-fp4-packs "$CK" -o d/s --tiers base --ckpt-id a
fresh; junk "d/$P.manifest.json" verify-ckpt-id verify d/s
cp -r "$CK" ck; chmod -R u+w ck
junk ck/config.json verify-ckpt-id id ck --served-path /m --no-content
junk ck/config.json build-planescache ck -o n --ckpt-id x -n
junk ck/config.json verify-ckpt-id audit ck
junk config.json verify-ckpt-id list --planescache c --config config.json
junk profile.json verify-ckpt-id list --planescache c --profile profile.json
rm -rf ck; cp -r "$CK" ck; chmod -R u+w ck
junk ck/model.safetensors.index.json build-planescache ck -o n --ckpt-id x -n
junk ck/model.safetensors.index.json verify-ckpt-id id ck
junk ck/model.safetensors.index.json verify-ckpt-id audit ck
junk list.json verify-ckpt-id verify list.json --root "$CK"
verify-ckpt-id manifest "$CK" -o m.json -q >/dev/null
junk tree.json verify-ckpt-id verify m.json --root "$CK" --hf-tree tree.json
# Files beside the weights. Two kinds of junk are enough from here on, since the parsers are the same.
kinds="string keys"
rm -rf ck; cp -r "$CK" ck; chmod -R u+w ck
for file in generation_config.json tokenizer_config.json tokenizer.json hf_quant_config.json chat_template.json; do
  junk ck/$file verify-ckpt-id audit ck
  junk ck/$file repack-experts finish ck --from "$CK" finished
  rm -rf finished
done
junk ck/config.json repack-experts translate ck translated
junk ck/model.safetensors.index.json repack-experts finish ck --from "$CK" finished; rm -rf finished
# Chunks: manifests, the state of an unpacking, the records of a packing.
pack-chunks pack "$CK" --name set -o parts --part-size 100kB --frame-size 64kB -q >/dev/null
for command in "verify parts" "list parts" "unpack parts -C o" "verify parts --deep"; do
  cp -r parts p; junk p/manifest.set.json pack-chunks ${command/parts/p}; rm -rf p o
done
(umask 077; mkdir -p o/.set.unpack); junk o/.set.unpack/state.json pack-chunks unpack parts -C o; rm -rf o
(umask 077; mkdir -p p/.set.pack); junk p/.set.pack/000.json pack-chunks pack "$CK" --name set -o p --part-size 100kB --frame-size 64kB; rm -rf p
(umask 077; mkdir -p r/.repack-experts); junk r/.repack-experts/build.json repack-experts build "$CK" r --levels 4 --granularity tensor; rm -rf r
# Configurations of the engine, dumps of its pool, traces; a page of serving.
junk recipe.yaml verify-ckpt-id check --planescache c --store s --recipe recipe.yaml
junk env.list verify-ckpt-id check --planescache c --store s --env-file env.list
junk dump.json size-tiers dump.json
junk trace.npy size-tiers trace.npy
memory=
junk serving.json bash "$SOURCE/scripts/serve.sh" ./serving.json --checkpoint "$CK" --planescache c
memory="--memory 64MiB -q"
# What is remembered of digests, and of a verification.
expect 0 verify-ckpt-id id "$CK" --recompute
remembered=$(find "$XDG_CACHE_HOME" -name '*.json' | head -1)
[ -n "$remembered" ] && junk "$remembered" verify-ckpt-id id "$CK" || fail "nothing is remembered"
mkdir -p ck/.cache/huggingface/download; junk ck/.cache/huggingface/download/config.json.metadata verify-ckpt-id id ck
# A listing, a manifest of a set and one of files, from a hub.
cat >hub.py <<'END'
import http.server, sys
class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", str(100_000_000)); self.end_headers()
        try:
            with open("served", "rb") as file:
                while data := file.read(1 << 20): self.wfile.write(data)
        except OSError: pass
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
open("port.tmp", "w").write(str(server.server_port)); __import__("os").rename("port.tmp", "port")
server.serve_forever()
END
python3 hub.py & server=$!
trap 'kill $server 2>/dev/null; rm -rf "$WORK"' EXIT
for _ in $(seq 100); do [ -e port ] && break; sleep 0.1; done
export HF_ENDPOINT=http://127.0.0.1:$(cat port) no_proxy=127.0.0.1
for source in "hf:me/cache set" "$HF_ENDPOINT/x set" "$HF_ENDPOINT/x"; do junk served pack-chunks fetch $source --out fetched; rm -rf fetched; done
[ $tried -ge 51 ] || fail "only $tried readers were tried"
finish
