# Every reader of JSON that others wrote, given 100 MB of junk under --memory 64MiB: refused, in bounded memory and time.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is needed to measure memory"
[ -z "${SANITIZED:-}" ] || skip "memory is not measured where a sanitizer adds its own"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint
cat >peak.py <<'END'
import resource, subprocess, sys
try: status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60).returncode
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
# junk FILE COMMAND...: the file is made each kind of junk, and the command has to refuse it. 0 is right where it may be
# passed over.
junk() {
  local file=$1 kind peak status; shift
  for kind in numbers string keys open; do
    rm -f "$file"; ln "$kind" "$file" 2>/dev/null || cp "$kind" "$file"
    read -r peak status < <(python3 peak.py "$@" --memory 64MiB -q)
    [ "$peak" -le 128 ] || fail "$peak MiB for $kind in $file: $*"
    case $status in 0 | 1 | 2 | 3) ;; *) fail "status $status for $kind in $file: $*" ;; esac
  done
  rm -f "$file"
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
fresh; mkdir "d/$D/.planesmith"; junk "d/$D/.planesmith/layer0.json" build-planescache "$CK" -o d/c --ckpt-id a
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
finish
