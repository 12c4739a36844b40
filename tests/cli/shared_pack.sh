# A pack that another program also fills, by the protocol of FORMAT.md section 7: sidecars are merged, the other's layers are
# left alone, and unverifiable layers are reported.
source "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is needed for the other program"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint PIN=golden-ds4-mini RIGHT=$GOLDEN/ds4-mini/expected/tp1/store

# The other program: writes the rows of a layer key, then lists it under the lock. With `hold` it keeps the lock a while.
cat >other.py <<'END'
import fcntl, json, os, sys, time
right, store, tag, key, hold = sys.argv[1:4] + [int(sys.argv[4]), float(sys.argv[5])]
stem = next(f[:-5] for f in os.listdir(right) if f.startswith(tag + ".") and f.endswith(".pack"))
side = json.load(open(f"{right}/{stem}.json"))
rows, at = side["E"] * side["stride"], key * side["E"] * side["stride"]
os.makedirs(store, exist_ok=True)
lock = open(f"{store}/{stem}.lock", "a"); fcntl.flock(lock, fcntl.LOCK_EX)
pack = os.open(f"{store}/{stem}.pack", os.O_RDWR | os.O_CREAT, 0o644)
os.ftruncate(pack, os.path.getsize(f"{right}/{stem}.pack"))
if not os.path.exists(f"{store}/{stem}.json"):
    open(f"{store}/{stem}.json", "w").write(json.dumps({**side, "layers": []}, sort_keys=True))
fcntl.flock(lock, fcntl.LOCK_UN)
with open(f"{right}/{stem}.pack", "rb") as source:
    source.seek(at); os.pwrite(pack, source.read(rows), at)
os.fsync(pack)
fcntl.flock(lock, fcntl.LOCK_EX)
listed = json.load(open(f"{store}/{stem}.json"))
time.sleep(hold)
listed["layers"] = sorted({*listed["layers"], key})
open(f"{store}/{stem}.new", "w").write(json.dumps(listed, sort_keys=True))
os.replace(f"{store}/{stem}.new", f"{store}/{stem}.json")
END
other() { python3 other.py "$RIGHT" "$@" || fail "the other program: $*"; }
right() { for file in "$RIGHT"/base.* "$RIGHT"/delta.*; do same "$file" "$1/${file##*/}"; done; }

# --- one layer each, at the same time, the sidecar in the other's hands meanwhile ---
other s base 1 1 & other s delta 1 1 &
expect 0 build-fp4-packs "$CK" -o s --tiers base,delta --ckpt-id $PIN --layers 0
wait
right s
# --- the run that is asked for all layers compares the other's with what it makes, and says so ---
inode() { stat -c '%n %i' s/*.pack; }
inode >before
expect 0 build-fp4-packs "$CK" -o s --tiers base,delta --ckpt-id $PIN
prints '^layers    1 converted, 1 already there'
for tag in base delta; do
  says "/$tag\\..*\\.pack: 1 layers are there and nothing says what they should be \\(no $tag\\..*\\.pack\\.manifest\\.json\\): they are compared"
done
inode >after; same before after
build-fp4-packs "$CK" -o own --tiers base,delta --ckpt-id $PIN -q >/dev/null || fail "packs of our own"
diff -r own s || fail "manifests differ from those of packs of our own"
expect 0 build-fp4-packs "$CK" -o s --tiers base,delta --ckpt-id $PIN
if grep -q 'nothing says what they should be' "$WORK/err"; then fail "said again although the manifest is there"; fi

# --- wrong bytes of the other's: kept, unless they are not to be trusted ---
other w base 1 0
printf X | dd of="$(echo w/base.*.pack)" bs=1 seek=$(($(stat -c %s "$(echo w/base.*.pack)") / 3 + 9)) conv=notrunc status=none
cp w/base.*.pack wrong
expect 0 build-fp4-packs "$CK" -o w --tiers base --ckpt-id $PIN --recheck
prints '^layers    2 converted, 0 already there'
same "$RIGHT"/base.*.pack w/base.*.pack

# --- a pack of another geometry under this name is never touched ---
stem=$(basename "$RIGHT"/base.*.pack .pack)
mkdir x; sed 's/"E": 3/"E": 4/' "$RIGHT/$stem.json" >"x/$stem.json"; echo precious >"x/$stem.pack"; cp -r x y
for force in "" --force; do
  expect 1 build-fp4-packs "$CK" -o x --tiers base --ckpt-id $PIN $force
  same "x/$stem.pack" "y/$stem.pack"; same "x/$stem.json" "y/$stem.json"
done
finish
