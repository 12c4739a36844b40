. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3, which computes the identities a second time, is not installed"

# The identities computed independently, with os.stat, json and hashlib only.
cat >"$WORK/book.py" <<'EOF'
import hashlib, json, os, sys
def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read())
def shards(directory):
    found, names = False, set()
    for index in ("model.safetensors.index.json", "pytorch_model.bin.index.json"):
        path = os.path.join(directory, index)
        if os.path.exists(path):
            found = True
            with open(path, encoding="utf-8") as f:
                names.update(json.load(f)["weight_map"].values())
    if not found:
        names = {n for n in os.listdir(directory) if n.endswith((".safetensors", ".bin"))}
    return sorted(names)
def engine(directory, served, revision):
    h = hashlib.sha256(b"moe-w2-checkpoint-stat-v2\0" + served.encode() + b"\0" + revision.encode())
    for name, text in (("config.json", b"config.json\0"), ("model.safetensors.index.json", None), ("pytorch_model.bin.index.json", None)):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            h.update((text or name.encode()) + digest(path).digest())
    for name in shards(directory):
        path = os.path.join(directory, name)
        st = os.stat(path)
        h.update(json.dumps({"ctime_ns": st.st_ctime_ns, "mtime_ns": st.st_mtime_ns, "name": name,
            "resolved_blob": os.path.basename(os.path.realpath(path)), "size": st.st_size},
            sort_keys=True, separators=(",", ":")).encode())
    return h.hexdigest()
def content(directory):
    names = [n for n in ("config.json", "model.safetensors.index.json", "pytorch_model.bin.index.json")
             if os.path.exists(os.path.join(directory, n))] + shards(directory)
    files = {n: digest(os.path.join(directory, n)).hexdigest() for n in names}
    return hashlib.sha256(json.dumps({"scheme": "content-sha256-v1", "files": files},
        sort_keys=True, separators=(",", ":")).encode()).hexdigest()
print(content(sys.argv[2]) if sys.argv[1] == "content" else engine(*sys.argv[2:5]))
EOF
book() { python3 "$WORK/book.py" "$@"; }

check() {  # DIRECTORY SERVED REVISION
  expect 0 verify-ckpt-id id "$1" --served-path "$2" ${3:+--revision "$3"} && {
    prints "^content  $(book content "$1")\$"
    prints "^engine   $(book engine "$1" "$2" "$3")\$"
  }
}

# An index, links out of the directory and inside it, a subdirectory.
d=$WORK/index; mkdir -p "$d/sub" "$WORK/elsewhere"
printf '{"a": 1}\n' >"$d/config.json"
printf one >"$d/one.safetensors"; printf two >"$WORK/elsewhere/two"; printf three >"$d/sub/three.safetensors"
ln -s ../elsewhere/two "$d/two.safetensors"; ln -s one.safetensors "$d/again.safetensors"
printf '{"weight_map": {"x": "two.safetensors", "y": "one.safetensors", "z": "again.safetensors", "w": "sub/three.safetensors"}}' >"$d/model.safetensors.index.json"
printf stray >"$d/stray.safetensors"
check "$d" /model ""
check "$d" "/données/modèle 1" v1
# Both indexes; no index and no config; odd names, one of them not UTF-8, which only the engine accepts.
printf '{"weight_map": {"x": "one.safetensors", "v": "old.bin"}}' >"$d/pytorch_model.bin.index.json"; printf old >"$d/old.bin"
check "$d" /model 9e165c30e2704aec5d9d593cce3eebd58bbef1cb
d=$WORK/none; mkdir "$d"
for name in b.safetensors a.bin 'quote".bin' 'back\slash.bin' $'new\nline.safetensors' 'é.bin' $'\xef\xbf\xbd.bin' '😀.bin' ' .bin' .hidden.bin; do
  printf '%s' "$name" >"$d/$name"
done
touch -d '1969-12-31T23:59:58.000000007Z' "$d/a.bin"
mkdir "$d/directory.bin.d"; printf x >"$d/not-a-shard.txt"
check "$d" /model ""
printf x >"$d/"$'\xff.bin'
expect 0 verify-ckpt-id id "$d" --no-content --served-path /m && prints "^$(book engine "$d" /m "")\$"
expect 1 verify-ckpt-id id "$d" && says 'not UTF-8'
rm "$d/"$'\xff.bin'

# The content id survives copying; the engine's does not.
d=$WORK/index; cp -rL "$d" "$WORK/copy"
expect 0 verify-ckpt-id id "$WORK/copy" && prints "^$(book content "$d")\$"
[ "$(book engine "$d" /m "")" != "$(verify-ckpt-id id "$WORK/copy" -q --no-content --served-path /m)" ] || fail "a copy kept its times"

# Known digests: from an earlier run, and not with --recompute.
expect 0 verify-ckpt-id id "$d" && says '^0 bytes hashed' && says 'Pin the content id'
expect 0 verify-ckpt-id id "$d" --recompute && says ' bytes hashed, 0 bytes known'
expect 0 verify-ckpt-id id "$d" -q && [ ! -s "$WORK/err" ] || fail "not quiet"
expect 0 verify-ckpt-id id "$d" --json --served-path /m &&
  python3 -c 'import json, sys; d = json.load(sys.stdin); assert d["content_id"] == sys.argv[1] and d["engine_id"] == sys.argv[2] and len(d["files"]) == 8, d' \
    "$(book content "$d")" "$(book engine "$d" /m "")" <"$WORK/out" || fail "JSON"

# A model that is not a directory here: the first line alone, for a commit only.
commit=9e165c30e2704aec5d9d593cce3eebd58bbef1cb
expect 0 verify-ckpt-id id org/model --served-path org/model --revision $commit &&
  prints "^$(printf 'moe-w2-checkpoint-stat-v2\0org/model\0%s' $commit | sha256sum | cut -c1-64)\$" && says 'is not a directory here'
expect 1 verify-ckpt-id id org/model --served-path org/model --revision main && says '40 hex digits'
expect 1 verify-ckpt-id id "$WORK/nowhere" && says 'nowhere: is not a directory'

# Runs that remember digests at once leave one record that is whole, and nothing else.
rm -rf "$XDG_CACHE_HOME"
for _ in $(seq 8); do verify-ckpt-id id "$d" --recompute -q >>"$WORK/ids" 2>"$WORK/err" & done; wait
[ "$(sort -u "$WORK/ids" | wc -l)" = 1 ] || fail "runs at once disagree"
[ -z "$(find "$XDG_CACHE_HOME" -name '*.tmp')" ] || fail "temporary files are left among what is remembered"
while read -r record; do python3 -m json.tool "$record" >/dev/null || fail "$record is no JSON"; done < <(find "$XDG_CACHE_HOME" -name '*.json')

# Wrong use and broken directories.
expect 2 verify-ckpt-id id
expect 2 verify-ckpt-id id "$d" --no-content
expect 2 verify-ckpt-id id "$d" --revision v1
expect 2 verify-ckpt-id id "$d" --memory 1000 --recompute && says 'smallest that works'
for file in model.safetensors.index.json "$(basename "$(find "$WORK/copy" -name '*.safetensors' ! -name 'stray*' | head -1)")"; do
  mv "$WORK/copy/$file" "$WORK/whole"
  printf 'version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n' >"$WORK/copy/$file"
  expect 1 verify-ckpt-id id "$WORK/copy"; says "$file: .*is a git-LFS pointer.*git lfs pull"
  rm -f "$WORK/copy/$file"; mv "$WORK/whole" "$WORK/copy/$file"
done
rm "$d/old.bin"
expect 0 verify-ckpt-id id "$d"  # an index left over from another form of the model
printf '{"weight_map": 3}' >"$d/pytorch_model.bin.index.json"
expect 1 verify-ckpt-id id "$d" && says 'pytorch_model.bin.index.json'
# What cannot be identified cannot be built: the dry run says so, too.
cp -r "$GOLDEN/ds4-mini/checkpoint" "$WORK/built"; echo '<html>' >"$WORK/built/pytorch_model.bin.index.json"
for how in --dry-run -q; do
  expect 1 build-planescache "$WORK/built" -o "$WORK/cache" $how && says 'pytorch_model.bin.index.json'
done
absent "$WORK/cache"
expect 0 build-planescache "$WORK/built" -o "$WORK/cache" --ckpt-id x -n
finish
