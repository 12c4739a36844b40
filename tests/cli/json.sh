# --json: one document of one shape, from every command, on success and on failure.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is needed to check documents against the schema"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint
tried=" "

# document STATUS COMMAND...: runs it with --json; what it prints fits the schema and says this exit status.
document() {
  expect "$@" --json
  python3 "$SOURCE/tests/tools/check_schema.py" "$SOURCE/manifests/result.schema.json" "$WORK/out" ||
    { fail "not as the schema says: $*"; head -c 600 "$WORK/out"; }
  python3 - "$WORK/out" "$1" <<'END' || fail "exit in the document: $*"
import json, sys
document = json.load(open(sys.argv[1]))
sys.exit(document["exit"] != int(sys.argv[2]) or document["ok"] != (sys.argv[2] == "0"))
END
  tried+="$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["command"])' "$WORK/out")|"
}
has() { python3 -c 'import json, sys; d = json.load(open(sys.argv[1])); sys.exit(not eval(sys.argv[2]))' "$WORK/out" "$1" || fail "$1 does not hold: $(head -c 600 "$WORK/out")"; }

document 0 build-planescache "$CK" -o c --ckpt-id a -n
document 0 build-planescache "$CK" -o c --store s --ckpt-id a
has 'd["layers_converted"] == 2 and d["bytes_read"] > 10000 and d["bytes_written"] > 10000 and d["complete"]'
document 2 build-planescache "$CK" -o c --ckpt-id a --fp4 nibbel
has 'd["error"]["code"] == "usage" and "did you mean nibble?" in d["error"]["message"]'
document 1 build-planescache nowhere -o c
has 'd["command"] == "build-planescache" and d["error"]["path"] == "nowhere"'
document 2 build-planescache "$CK" -o c --no-such
document 0 build-fp4-packs --from-planescache c -o s2 --tiers delta
document 0 build-fp4-packs "$CK" -o s2 --tiers base --ckpt-id a
document 0 verify-ckpt-id id "$CK" --served-path /model
document 1 verify-ckpt-id id nowhere
document 0 verify-ckpt-id check --planescache c --store s --tiers base,delta,fp4
document 0 verify-ckpt-id check --planescache c --checkpoint "$CK" --sample 2
document 3 verify-ckpt-id check --planescache c --ckpt-id b
document 0 verify-ckpt-id list --planescache c --store s
document 0 verify-ckpt-id prune --keep a --planescache c
document 0 verify-ckpt-id rekey --from a --to b --planescache c -n
document 0 verify-ckpt-id manifest "$CK" -o m.json
document 0 verify-ckpt-id verify m.json --root "$CK"
cp -r "$CK" damaged; chmod -R u+w damaged; printf x >>damaged/config.json
document 3 verify-ckpt-id verify m.json --root damaged
has 'd["differences"][0]["kind"] == "size"'
verify-ckpt-id audit "$CK" >/dev/null 2>&1; document $? verify-ckpt-id audit "$CK"
document 0 pack-chunks pack s --name set --out parts
document 0 pack-chunks pack s --name set2 --out parts -n
document 0 pack-chunks verify parts --name set
document 0 pack-chunks list parts --name set
document 0 pack-chunks unpack parts --name set -C o
document 0 repack-experts build "$CK" r --levels 4 --granularity tensor
document 0 repack-experts gate "$CK"
repack-experts analyze "$CK" >/dev/null 2>&1; document $? repack-experts analyze "$CK"

# Commands that need a hub or float weights fail here, but still print a document.
as_it_ends() { "$@" >/dev/null 2>&1; document $? "$@"; }
as_it_ends pack-chunks fetch ftp://nowhere set --out o
as_it_ends repack-experts quantize "$CK" q --to nvfp4
as_it_ends repack-experts translate "$CK" t
as_it_ends repack-experts finish "$CK" --from "$CK" f
document 0 verify-ckpt-id verify c s
document 0 verify-ckpt-id repair c s -n
rm c/v2/*/*/meta.json
document 3 verify-ckpt-id repair c -n
document 0 verify-ckpt-id repair c

# Names that are not UTF-8 are shown as messages show them, never an error of their own.
odd=$(printf 'odd\377name')
mkdir -p "$odd/tree"; cp -r "$CK" "$odd/ck"; printf x >"$odd/tree/file"; printf y >"$odd/tree/$odd"
document 0 build-planescache "$odd/ck" -o "$odd/c" --store "$odd/s" --ckpt-id a
document 0 build-fp4-packs --from-planescache "$odd/c" -o "$odd/s2" --tiers delta
document 0 verify-ckpt-id check --planescache "$odd/c" --store "$odd/s" --checkpoint "$odd/ck" --sample 1
document 0 verify-ckpt-id list --planescache "$odd/c" --store "$odd/s"
document 0 verify-ckpt-id prune --keep a --planescache "$odd/c"
document 0 verify-ckpt-id rekey --from a --to b --planescache "$odd/c" -n
document 0 verify-ckpt-id id "$odd/ck" --served-path /model
document 0 pack-chunks pack "$odd/ck" --name set --out "$odd/parts"
document 0 pack-chunks unpack "$odd/parts" -C "$odd/o"
document 0 pack-chunks verify "$odd/parts" && document 0 pack-chunks list "$odd/parts"
document 0 verify-ckpt-id verify "$odd/c" && document 0 verify-ckpt-id repair "$odd/c"
verify-ckpt-id audit "$odd/ck" >/dev/null 2>&1; document $? verify-ckpt-id audit "$odd/ck"
repack-experts analyze "$odd/ck" >/dev/null 2>&1; document $? repack-experts analyze "$odd/ck"
document 2 pack-chunks fetch ftp://nowhere set --out "$odd/f"
document 1 size-tiers "$odd/none.npy"
document 1 verify-ckpt-id verify "$odd/none.json"
has 'd["error"]["code"] == "not-found" and "\\xff" in d["error"]["path"]'
document 0 repack-experts build "$odd/ck" "$odd/r" --levels 4 --granularity tensor
document 0 repack-experts gate "$odd/ck"
document 1 verify-ckpt-id manifest "$odd/tree" -o "$odd/m.json"

# size-tiers, and what a dry run of packs from a cache says.
expect 0 make-trace t.npy --ticks 50 --layers 2 --experts 3 --per-layer 2 -q
document 0 size-tiers t.npy --config "$CK" --policy engine --slots 1,4 --gpu-memory 96G
document 1 size-tiers nowhere.npy
document 0 build-fp4-packs --from-planescache c -o s3 -n
has 'd["outlook"]["bytes_to_write"] > 0 and d["outlook"]["ckpt_id"] == "a" and d["peak_memory_bytes"] > 0'
document 0 build-fp4-packs --from-planescache c -o s3 -n --estimate
has 'd["outlook"]["estimate"]["seconds"] >= 0'
# The command that comes next.
document 0 build-planescache "$CK" -o c --ckpt-id a
has '"verify-ckpt-id check --planescache c --ckpt-id a " in d["next"]'

# Every subcommand that --help names was looked at.
for program in build-planescache build-fp4-packs verify-ckpt-id pack-chunks repack-experts size-tiers; do
  commands=$($program --help | sed -n '/^Subcommands:/,/^$/s/^  \([a-z0-9-]*\) .*/\1/p')
  for command in ${commands:-""}; do
    case $tried in *"$program${command:+ $command}|"*) ;; *) fail "no document of $program $command was looked at" ;; esac
  done
done
finish
