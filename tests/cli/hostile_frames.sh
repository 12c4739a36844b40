# zstd frames that lie about their sizes, given to unpack, fetch and verify under --memory 64MiB: a sentence, or the content
# where there is nothing wrong with it; in bounded memory and time.
. "$(dirname "$0")/common.sh"
[ -z "${SANITIZED:-}" ] || skip "memory is not measured where a sanitizer adds its own"
. "$SOURCE/tests/tools/hub.sh"
mkdir -p src && noise 300000 >src/noise && seq 1000 >src/numbers
pack-chunks pack src --name set --frame-size 64KiB --part-size 100kB -o good -q >/dev/null || fail "pack"
tar -c src >src.tar
cat >make.py <<'END'
"""Archives by name: frames by hand (RFC 8878) around a tar that is whole, or in its place."""
import os, struct, sys
tar = open("src.tar", "rb").read()
def frame(content, claimed=None, window_log=20, single=False, last=True, unknown=False, block=1 << 17):
    """Raw blocks. claimed: the size that the header tells."""
    size = len(content) if claimed is None else claimed
    out = struct.pack("<I", 0xFD2FB528)
    out += bytes([(0 if unknown else 3 << 6) | (1 << 5 if single else 0)])
    if not single: out += bytes([(window_log - 10) << 3])
    if not unknown: out += struct.pack("<Q", size & (1 << 64) - 1)
    pieces = [content[i:i + block] for i in range(0, len(content), block)] or [b""]
    for i, piece in enumerate(pieces):
        out += struct.pack("<I", len(piece) << 3 | (last and i + 1 == len(pieces)))[:3] + piece
    return out
def skippable(claimed, content=b""): return struct.pack("<II", 0x184D2A50, claimed) + content
EMPTY = struct.pack("<I", 0xFD2FB528) + b"\x20\x00\x01\x00\x00"
def small(): return b"".join(frame(tar[i:i + 3]) for i in range(0, len(tar), 3))
# name: (archive, whether it can be unpacked)
CASES = {
    "as-it-should-be": lambda: (frame(tar), True),
    "window-2-to-31": lambda: (frame(tar, window_log=31, unknown=True), False),
    "window-2-to-41": lambda: (frame(tar, window_log=41, unknown=True), False),
    "window-2-to-41-and-size": lambda: (frame(tar, window_log=41), True),  # a frame of known size needs no window
    "larger-by-one": lambda: (frame(tar, len(tar) + 1), False),
    "larger-by-far": lambda: (frame(tar, 1 << 40), False),
    "larger-in-one-segment": lambda: (frame(tar, 1 << 40, single=True), False),
    "smaller-by-one": lambda: (frame(tar, len(tar) - 1), False),
    "smaller-by-far": lambda: (frame(tar, 1), False),
    "nothing-claimed": lambda: (frame(tar, 0), False),
    "2-to-63": lambda: (frame(tar, 1 << 63), False),
    "2-to-63-in-one-segment": lambda: (frame(tar, 1 << 63, single=True), False),
    "2-to-64-less-1": lambda: (frame(tar, -1), None),  # what the library means by "not known"
    "2-to-64-less-2": lambda: (frame(tar, -2), False),  # and by "an error"
    "2-to-64-less-1-in-one-segment": lambda: (frame(tar, -1, single=True), False),
    "not-known": lambda: (frame(tar, unknown=True), True),
    "no-last-block": lambda: (frame(tar, last=False), False),
    "skip-4-GiB": lambda: (skippable(0xFFFFFFFF) + frame(tar), False),
    "skip-4-GiB-at-the-end": lambda: (frame(tar) + skippable(0xFFFFFFFF), False),
    "skip-a-little": lambda: (skippable(3, b"abc") + frame(tar) + skippable(0), True),
    "skip-much-behind-a-frame": lambda: (frame(tar[:1000]) + skippable(200_000_000, bytes(200_000_000)) + frame(tar[1000:]), True),
    "skip-nothing-often": lambda: (skippable(0) * 2_000_000 + frame(tar), True),
    "empty-frames": lambda: (EMPTY * 2_000_000 + frame(tar), True),
    "empty-frames-in-between": lambda: (frame(tar[:1000]) + EMPTY * 1_000_000 + frame(tar[1000:]), True),
    "empty-frames-only": lambda: (EMPTY * 1_000_000, False),
    "empty-blocks": lambda: (frame(b"x" * 0, len(tar), last=False) + b"\0\0\0" * 5_000_000 + frame(tar, block=1 << 17)[14:], True),
    "frames-of-three-bytes": lambda: (small(), True),
    "eight-that-claim-8-MiB": lambda: (frame(b"", 1 << 23) * 64, False),
    "cut": lambda: (frame(tar)[:-1000], False),
}
if len(sys.argv) == 1: print("\n".join(CASES))
else:
    data, good = CASES[sys.argv[1]]()
    open(sys.argv[2], "wb").write(data)
    print({True: "good", False: "bad", None: "either"}[good])
END
cat >peak.py <<'END'
import resource, subprocess, sys
try: status = subprocess.run(sys.argv[2:], stdin=open(sys.argv[1]), stdout=open("printed", "w"), stderr=open("said", "w"), timeout=60).returncode
except subprocess.TimeoutExpired: status = "timeout"
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024, status)
END
# bounded STATUSES INPUT COMMAND...: ends so, within a minute and 64 MiB of memory beside those of the program itself.
bounded() {
  local statuses=$1 peak status; shift
  read -r peak status < <(python3 peak.py "$@" --memory 64MiB)
  [ "$peak" -le 128 ] || fail "$case: $peak MiB: $*"
  case " $statuses " in *" $status "*) ;; *) fail "$case: status $status instead of $statuses: $*"; tail -3 said; return ;; esac
  [ "$status" = 0 ] || grep -qE '^pack-chunks: .*' said || fail "$case: no sentence: $*"
  [ "$(wc -c <said)" -lt 2000 ] || fail "$case: $(wc -c <said) bytes are said: $*"
}
# Without a manifest: from a file, from standard input, from a hub.
export PYTHONPATH=
start_hub
for case in $(python3 make.py); do
  rm -rf p out1 out2 out3; mkdir p
  good=$(python3 make.py "$case" p/x.tar.zst.part.000)
  case $good in good) want=0 ;; bad) want="1 3" ;; *) want="0 1 3" ;; esac
  bounded "$want" /dev/null pack-chunks unpack p -C out1 -T 8
  bounded "$want" p/x.tar.zst.part.000 pack-chunks unpack - -C out2
  cp p/x.tar.zst.part.000 $repo/; bounded "$want" /dev/null pack-chunks fetch hf:me/cache x --out out3
  for out in out1 out2 out3; do
    if [ "$good" = good ]; then diff -r src $out/src || fail "$case: not what was packed: $out"
    elif [ "$good" = bad ] && [ -n "$(ls -A $out 2>/dev/null)" ]; then fail "$case: something is in $out: $(ls -A $out)"; fi
  done
done
rm -f $repo/*.part.000 p/*

# With a manifest, whose author is hostile, too: the second frame of the first part is another, and the manifest says how long.
cat >lie.py <<'END'
import json, sys
case, sys.argv = sys.argv[1], ["make.py"]
exec(open("make.py").read().split("if len(sys.argv)")[0])
content = bytes(65536)
LIES = {"claims-2-to-63": lambda: frame(content, 1 << 63), "claims-one-more": lambda: frame(content, 65537), "claims-one-less": lambda: frame(content, 65535),
        "holds-less": lambda: frame(content[1:], 65536), "holds-more": lambda: frame(content * 100, 65536), "says-no-size": lambda: frame(content, unknown=True),
        "window-2-to-41": lambda: frame(content, window_log=41), "window-2-to-41-and-no-size": lambda: frame(content, window_log=41, unknown=True),
        "skips-4-GiB": lambda: skippable(0xFFFFFFFF), "skips-much": lambda: skippable(150_000_000, bytes(150_000_000)), "empty-frames": lambda: EMPTY * 1_000_000,
        "empty-frames-and-one-more": lambda: EMPTY * 1000 + frame(content), "other-content": lambda: frame(content), "nothing": lambda: b""}
if case == "list": print("\n".join(LIES)); sys.exit()
new = LIES[case]()
manifest, part = json.load(open("good/manifest.set.json")), bytearray(open("good/set.tar.zst.part.000", "rb").read())
frames = manifest["chunks"]["frames"]
at, size = frames[1]["offset"], frames[1]["size"]
assert frames[1]["part"] == 0 and at != 0
part[at:at + size] = new
frames[1]["size"] = len(new)
for f in frames[2:]: f["offset"] += len(new) - size if f["part"] == 0 else 0
manifest["files"][0]["size"] = len(part)
if len(part) > manifest["chunks"]["part_size"]: manifest["chunks"]["part_size"] = len(part)
del manifest["digest"]
open("p/set.tar.zst.part.000", "wb").write(part)
json.dump(manifest, open("p/manifest.set.json", "w"))
END
for case in $(python3 lie.py list); do
  rm -rf p out1 out2 out3 $repo/set.* $repo/manifest.*; cp -r good p
  python3 lie.py "$case" || fail "cannot make $case"
  cp p/* $repo/
  bounded "1 3" /dev/null pack-chunks unpack p -C out1 -T 8
  bounded "1 3" /dev/null pack-chunks unpack p -C out1 -T 1
  cat p/*.part.* >stream; bounded "1 3" stream pack-chunks unpack - --manifest p/manifest.set.json -C out2
  bounded "1 3" /dev/null pack-chunks fetch hf:me/cache set --out out3
  bounded "1 3" /dev/null pack-chunks verify p
  bounded "1 3" /dev/null pack-chunks verify p --deep -T 8
  bounded "0 1 3" /dev/null pack-chunks list p
  for out in out1 out2 out3; do absent $out/src/noise; done
done
finish
