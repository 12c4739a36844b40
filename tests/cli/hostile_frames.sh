# Frames and manifests of sets that lie about sizes: unpack, verify and fetch end with 1 or 3 and a sentence that names part
# and offset, within --memory 64MiB, and nothing gets a final name. Where a frame is only unusual, its content comes out.
. "$(dirname "$0")/common.sh"
[ -z "${SANITIZED:-}" ] || skip "memory is not measured where a sanitizer adds its own"
. "$SOURCE/tests/tools/hub.sh"
mkdir src && noise 300000 >src/noise && seq 1000 >src/numbers
# SHA-256 alone: Python makes it anew for each hostile part, as an author would.
expect 0 pack-chunks pack src --name set --frame-size 64KiB --part-size 200kB --hash sha256 -o good -q
start_hub
cat >try.py <<'END'
import hashlib, json, os, re, shutil, struct, subprocess, sys, threading
repo, failures, runs = sys.argv[1], 0, 0
good = json.load(open("good/manifest.set.json"))
del good["digest"]  # of the manifest itself
name = good["files"][0]["path"]
part = open("good/" + name, "rb").read()
frames = good["chunks"]["frames"]
at, size = frames[1]["offset"], frames[1]["size"]
assert frames[1]["part"] == 0 and at > 0 and frames[2]["part"] == 0
content = subprocess.run(["zstd", "-dcq"], input=part[at:at + size], stdout=subprocess.PIPE, check=True).stdout
assert len(content) == 65536

# Frames by hand (RFC 8878).
MAGIC, LAST, RLE, RESERVED = struct.pack("<I", 0xFD2FB528), 1, 1 << 1, 3 << 1
def block(kind, size, data): return struct.pack("<I", size << 3 | kind)[:3] + data
def frame(content, claimed=None, window=10 << 3, flags=0, extra=b"", blocks=None):
    """window: its descriptor, exponent - 10 in the upper five bits. extra: between the window and the size."""
    claimed = len(content) if claimed is None else claimed
    return (MAGIC + bytes([3 << 6 | flags, window]) + extra + struct.pack("<Q", claimed)
            + (block(LAST, len(content), content) if blocks is None else blocks))
def unsized(content, window=10 << 3): return MAGIC + bytes([0, window]) + block(LAST, len(content), content)
def skippable(claimed, data=b""): return struct.pack("<II", 0x184D2A50, claimed) + data
EMPTY = MAGIC + b"\x20\x00\x01\x00\x00"
N = len(content)

# name: the frame, whether it is to be accepted with a manifest, and without one. ANY: the tar inside decides.
GOOD, BAD, ANY = True, False, None
FRAMES = {
    "as it should be": (frame(content), GOOD, GOOD),
    "claims 2^40": (frame(content, 1 << 40), BAD, BAD),
    "claims 2^63": (frame(content, 1 << 63), BAD, BAD),
    "claims 2^64 - 2": (frame(content, (1 << 64) - 2), BAD, BAD),
    "claims nothing": (frame(content, 0), BAD, BAD),
    "claims 2^40 in one segment": (MAGIC + b"\xe0" + struct.pack("<Q", 1 << 40) + block(LAST, N, content), BAD, BAD),
    "window of 2^31": (frame(content, window=21 << 3), GOOD, GOOD),  # not needed for content this short
    "window of 2^31, no size": (unsized(content, 21 << 3), BAD, BAD),
    "window of 2^41": (frame(content, window=31 << 3), BAD, BAD),
    "window of 2^41, no size": (unsized(content, 31 << 3), BAD, BAD),
    "no size": (unsized(content), BAD, GOOD),
    "expands to more than it claims": (frame(content + b"x", N), BAD, BAD),
    "expands to a gigabyte": (frame(content, blocks=block(RLE, 1 << 17, b"\0") * 8192 + block(LAST, 0, b"")), BAD, BAD),
    "expands to less than it claims": (frame(content[:-1], N), BAD, BAD),
    "expands to nothing": (frame(b"", N), BAD, BAD),
    "expands to more than the manifest says": (frame(content + b"x"), BAD, ANY),
    "expands to less than the manifest says": (frame(content[:-1]), BAD, ANY),
    "other content": (frame(bytes(N)), BAD, ANY),
    "cut": (frame(content)[:-1000], BAD, BAD),
    "cut in its header": (frame(content)[:5], BAD, BAD),
    "no last block": (frame(content, blocks=block(0, N, content)), BAD, BAD),
    "a reserved block": (frame(content, blocks=block(RESERVED | LAST, N, content)), BAD, BAD),
    "a reserved bit": (frame(content, flags=1 << 3), BAD, BAD),
    "a dictionary": (frame(content, flags=1, extra=b"\x07"), BAD, BAD),
    "a checksum that is wrong": (frame(content, flags=1 << 2) + b"\1\2\3\4", BAD, BAD),
    "data behind it": (frame(content) + b"trailing", BAD, BAD),
    "zeros behind it": (frame(content) + bytes(8), BAD, BAD),
    "a frame behind it": (frame(content) + frame(b"x"), BAD, ANY),
    "skippable": (skippable(N, content), BAD, ANY),
    "skippable that claims 2^32 - 1": (skippable(0xFFFFFFFF), BAD, BAD),
    "empty frames": (EMPTY * 7000, BAD, ANY),  # as long as a frame may be
}
# What refusals of some frames say, too.
TOO_LARGE = r"its window of {} is larger than {}, the most that "
TIB, GIB, MIB = r"2\.00 TiB \(2199023255552 bytes\)", r"2\.00 GiB \(2147483648 bytes\)", r"[0-9.]+ MiB \(\d+ bytes\)"
SAYS = {
    "window of 2^31, no size": TOO_LARGE.format(GIB, MIB) + "--memory allows; give more --memory",
    "window of 2^41": TOO_LARGE.format(TIB, GIB) + "is supported",
    "window of 2^41, no size": TOO_LARGE.format(TIB, GIB) + "is supported",
}
# Manifests over parts that are as they should be: what the refusal names, and the change.
T = 1 << 40
MANIFESTS = {
    "frame of 2^40 bytes": ("frame 1 ", lambda m: m["chunks"]["frames"][1].update(size=T)),
    "frame at 2^40": ("frame 1 ", lambda m: m["chunks"]["frames"][1].update(offset=T)),
    "frame in part 2^40": ("frame 1 ", lambda m: m["chunks"]["frames"][1].update(part=T)),
    "frame of 2^64 - 1 bytes": ("frame 1 ", lambda m: m["chunks"]["frames"][1].update(size=(1 << 64) - 1)),
    "frame that overlaps the one before": ("frame 1 ",
        lambda m: m["chunks"]["frames"][1].update(offset=at - 1, size=size + 1)),
    "frame that overlaps the one behind": ("frame 2 ", lambda m: m["chunks"]["frames"][1].update(size=size + 1)),
    "frame of nothing": ("frame 1 ", lambda m: m["chunks"]["frames"][1].update(size=0)),
    "frames that are the same one": ("frame 1 ", lambda m: m["chunks"]["frames"][1].update(offset=0, size=at)),
    "part of 2^40 bytes": ("frame 3 ", lambda m: m["files"][0].update(size=T)),
    "part and frame of 2^40 bytes": ("frame 2 ",
        lambda m: (m["files"][0].update(size=T), m["chunks"]["frames"][2].update(size=T))),
    "content of 2^40 bytes": ("1099511627776 bytes", lambda m: m["chunks"].update(stream_size=T)),
    "frames of 2^40 bytes": ("frame_size", lambda m: m["chunks"].update(frame_size=T)),
    "file of 2^40 bytes": ("src/numbers", lambda m: m["chunks"]["members"][-1].update(size=T)),
    "file at 2^40": ("src/numbers", lambda m: m["chunks"]["members"][-1].update(offset=T, data_offset=T + 512)),
}

def fail(what):
    global failures
    failures += 1
    print("FAIL:", what, flush=True)
def run(case, right, command, sentence, feed=None):
    """Runs a command under --memory 64MiB. sentence: a regular expression for what a refusal says."""
    global runs
    runs += 1
    shutil.rmtree("out", ignore_errors=True)
    child = subprocess.Popen(command.split() + ["--memory", "64MiB", "-q"], stdin=open(feed or "/dev/null"),
                             stdout=open("printed", "w"), stderr=open("said", "w"))
    watch = threading.Timer(60, child.kill)
    watch.start()
    _, status, used = os.wait4(child.pid, 0)
    watch.cancel()
    child.returncode = status = os.waitstatus_to_exitcode(status)
    verify = "verify" in command  # its findings are its output
    said = open("said", errors="replace").read() + (open("printed", errors="replace").read() if verify else "")
    what = f"{case}: {command}{' <' + feed if feed else ''}: "
    left = [f"{where}/{f}" for where, _, files in os.walk("out") for f in files if not where.startswith("out/.")]
    if used.ru_maxrss > 128 << 10: fail(f"{what}{used.ru_maxrss >> 10} MiB")
    if status == 0 and right is BAD: fail(f"{what}is accepted")
    elif status == 0:
        for f in () if verify or right is ANY else ("noise", "numbers"):
            if open("src/" + f, "rb").read() != open("out/src/" + f, "rb").read(): fail(f"{what}{f} is not what was packed")
    elif right is GOOD or status not in (1, 3): fail(f"{what}status {status}: {said}")
    elif not re.search(sentence, said, re.M): fail(f"{what}does not say '{sentence}': {said}")
    elif len(said) > 2000: fail(f"{what}says {len(said)} bytes")
    elif left: fail(f"{what}leaves {left}")
def run_all(case, right, sentence, verified):
    """With a manifest. verified: whether the digests of the parts are right."""
    for f in os.listdir("p"): shutil.copyfile("p/" + f, f"{repo}/{f}")
    open("stream", "wb").write(b"".join(open("p/" + f["path"], "rb").read() for f in good["files"]))
    run(case, right, "pack-chunks unpack p -C out -T 8", "^pack-chunks: p/" + sentence)
    run(case, right, "pack-chunks unpack - --manifest p/manifest.set.json -C out -T 2", "^pack-chunks: (p/)?" + sentence,
        "stream")
    run(case, right, "pack-chunks fetch hf:me/cache set --out out -T 2", "^pack-chunks: " + sentence)
    run(case, verified, "pack-chunks verify p", "^pack-chunks: p/" + sentence)
    run(case, right, "pack-chunks verify p --deep -T 8", "^(pack-chunks: p/)?" + sentence)

shutil.copytree("good", "p")
for case, (new, right, bare) in FRAMES.items():
    manifest = json.loads(json.dumps(good))
    changed = part[:at] + new + part[at + size:]
    for f in manifest["chunks"]["frames"]:
        if f["part"] == 0 and f["offset"] > at: f["offset"] += len(new) - size
    manifest["chunks"]["frames"][1]["size"] = len(new)
    manifest["files"][0].update(size=len(changed), sha256=hashlib.sha256(changed).hexdigest())
    open("p/" + name, "wb").write(changed)
    json.dump(manifest, open("p/manifest.set.json", "w"))
    said = f".*{SAYS[case]}" if case.startswith("window of 2^41") else ""
    run_all(case, right, rf"{re.escape(name)}: at byte {at}: (the frame here \(number 1\)|frame 1) " + said, GOOD)
    for directory in ("p", repo): os.unlink(directory + "/manifest.set.json")
    where = r"set\.tar\.zst\.part\.00[01]: at byte \d+: .*" + SAYS.get(case, "")
    run(case, bare, "pack-chunks unpack p -C out -T 8", "^pack-chunks: p/" + where)
    run(case, bare, "pack-chunks unpack - -C out -T 2", r"^pack-chunks: standard input: at byte \d+: .", "stream")
    run(case, bare, "pack-chunks fetch hf:me/cache set --out out -T 2", "^pack-chunks: " + where)
shutil.copyfile("good/" + name, "p/" + name)
for case, (named, change) in MANIFESTS.items():
    manifest = json.loads(json.dumps(good))
    change(manifest)
    json.dump(manifest, open("p/manifest.set.json", "w"))
    run_all(case, BAD, rf"manifest\.set\.json: is not a usable manifest: .*{named}", BAD)
print(f"{runs} runs of {len(FRAMES)} frames and {len(MANIFESTS)} manifests")
sys.exit(failures != 0)
END
python3 try.py $repo || fail "what is above"
finish
