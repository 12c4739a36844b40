# pack-chunks fetch, killed at random moments and continued: the same bytes, and no finished frame is fetched twice.
. "$(dirname "$0")/common.sh"
. "$SOURCE/tests/tools/hub.sh"
mkdir -p src/tree hub/models/me/plain/main/d
python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(4).randbytes(12000000))' >src/tree/noise
seq 1 300000 >src/tree/numbers
cp src/tree/* hub/models/me/plain/main/d
pack-chunks pack src/tree --name set --part-size 3MB --frame-size 64KiB --out $repo -q >/dev/null || fail "pack"
start_hub
trouble 'rate 400000'
python3 - "$HF_ENDPOINT" <<'PY' || fail "see above"
import json, os, random, re, signal, subprocess, sys, time
chance = random.Random(5)
manifest = json.load(open("hub/models/me/cache/main/manifest.set.json"))["chunks"]
frames, parts = manifest["frames"], sorted(p for p in os.listdir("hub/models/me/cache/main") if ".part." in p)
def run(arguments, seconds):
    process = subprocess.Popen(["pack-chunks", "fetch", *arguments, "-q", "--out", "out", "-j", "16", "-T", "16"], stdout=subprocess.DEVNULL)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
def requested():
    for line in open("hub/.requests"):
        if found := re.search(r"/cdn/\S*/(set\S*part\.\d+)\S* bytes=(\d+)-(\d+)", line):
            yield found[1], int(found[2]), int(found[3]) + 1
kills = 0
while True:
    finished = []
    try:
        finished = [frames[int(n)] for n in open("out/.set.unpack/journal").read().splitlines()[1:]]
    except FileNotFoundError:
        pass
    open("hub/.requests", "w").close()
    status = run(["hf:me/cache", "set"], 0.15 + chance.random() * 0.3 if kills < 20 else 300)
    for name, begin, end in requested():
        for frame in finished:
            if parts[frame["part"]] == name and begin < frame["offset"] + frame["size"] and frame["offset"] < end:
                sys.exit(f"after kill {kills}: frame {frame} was finished, and {name} is asked for bytes {begin}-{end}")
    if status == 0:
        break
    if status is not None:
        sys.exit(f"exit {status}")
    kills += 1
    journal = "out/.set.unpack/journal"
    finished = sum(frames[int(n)]["size"] for n in open(journal).read().splitlines()[1:]) if os.path.exists(journal) else 0
    plan = json.loads(subprocess.run(["pack-chunks", "fetch", "hf:me/cache", "set", "--out", "out", "--dry-run", "--json", "-q"], stdout=subprocess.PIPE, check=True).stdout)
    if plan["fetched_bytes"] == 0 and not os.path.exists(journal):
        continue  # killed when all files had their names
    if plan["fetched_bytes"] + finished != sum(frame["size"] for frame in frames):
        sys.exit(f"after kill {kills}: a dry run tells of {plan['fetched_bytes']} bytes to fetch, {finished} are there")
print("killed", kills, "times")
if kills < 5:
    sys.exit("it was over too soon: nothing was tested")
PY
[ "$(fingerprint src/tree)" = "$(fingerprint out/tree)" ] || fail "not what was packed"
[ "$(ls -A out)" = tree ] || fail "left behind: $(ls -A out)"

# plain files go on at the byte where they stopped
for seconds in 0.2 0.3 0.4 0.3; do
  { timeout -s KILL $seconds pack-chunks fetch hf:me/plain --out plain -q -j 4 >/dev/null 2>&1; } 2>/dev/null  # "Killed"
done
staged=$(stat -c %s plain/.planesmith-fetch/* 2>/dev/null | awk '{ s += $1 } END { print s + 0 }')
trouble
expect 0 pack-chunks fetch hf:me/plain --out plain
diff -r src/tree plain/d || fail "plain files"
[ "$(ls -A plain)" = d ] || fail "left behind: $(ls -A plain)"
[ "$staged" = 0 ] || grep -q 'bytes=[1-9]' hub/.requests || fail "fetched again from the start, though $staged bytes were there"
finish
