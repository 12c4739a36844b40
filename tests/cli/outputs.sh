# Where output goes: files whose names the user gives, standard streams that are closed or full, values that are empty.
source "$(dirname "$0")/common.sh"
cd "$WORK" || exit 1
cp -r "$GOLDEN/ds4-mini/checkpoint" ck
CACHE=(build-planescache ck --ckpt-id A)
"${CACHE[@]}" --out right -q >/dev/null || fail "the cache to compare with"

# --- the result cannot be printed: the work is done nevertheless, and the exit status is right ---
"${CACHE[@]}" --out closed >/dev/null 2>&-; [ $? = 0 ] || fail "exit status with standard error closed"
"${CACHE[@]}" --out full >/dev/null 2>/dev/full; [ $? = 0 ] || fail "exit status with standard error on a full device"
"${CACHE[@]}" --out none >/dev/null 2>&- <&-; [ $? = 0 ] || fail "exit status with standard input closed"
for out in closed full none; do diff -r right $out || fail "$out: differs"; done
build-planescache nope --out no 2>&-; [ $? = 1 ] || fail "exit status of a failure with standard error closed"
pack-chunks pack right --name a --out packed >/dev/null 2>&-; [ $? = 0 ] || fail "packing with standard error closed"
(set -o pipefail; "${CACHE[@]}" --out pipe 2>&1 >/dev/null | true); [ $? = 0 ] || fail "exit status with a closed pipe"
# --- results that cannot be written are an error ---
verify-ckpt-id id ck >/dev/full 2>err; [ $? = 1 ] || fail "results on a full device"
verify-ckpt-id id ck >&- 2>err; [ $? = 1 ] || fail "results to a closed stream"
build-planescache --generate zsh >/dev/full 2>err; [ $? = 1 ] || fail "completions on a full device"
# --- a limit on the size of files is an error, too ---
(ulimit -f 10; expect 1 "${CACHE[@]}" --out limited; says 'File too large')
[ -z "$(find limited -name '*.tmp')" ] || fail "left: $(find limited -name '*.tmp')"
absent limited/v2/*/tp1-rank0/manifest.json

# --- names the user gives: devices, pipes and links stay what they are ---
mkdir d; echo a >d/f
mkfifo pipe.json; cat pipe.json >through & expect 0 verify-ckpt-id manifest d --out pipe.json; wait
[ -p pipe.json ] || fail "the pipe was replaced"
expect 0 verify-ckpt-id manifest d --out plain.json
same through plain.json
: >real.json; ln -s real.json link.json
expect 0 verify-ckpt-id manifest d --out link.json
[ -L link.json ] || fail "the link was replaced"
same real.json plain.json
echo precious >precious; ln -s precious q.json.tmp
expect 0 verify-ckpt-id manifest d --out q.json
[ "$(cat precious)" = precious ] || fail "written through a link of the temporary name"
repack-experts analyze ck --report /dev/stdout -q 2>err | grep -q '<!doctype html>' || fail "a report to a pipe"
# --- and inputs stay as they are ---
cp -r ck before
expect 2 repack-experts analyze ck --report ck/config.json; says 'is a file of the checkpoint'
expect 2 repack-experts build ck k --levels 4 --granularity row --stats-out ck/config.json; says 'is a file of the checkpoint'
expect 2 repack-experts build ck k --levels 4 --granularity row --stats-out k/config.json; says 'the name of a file of the checkpoint'
expect 2 repack-experts build ck k --levels 4 --granularity row --stats-out ./d/../k/config.json; says 'the name of a file of the checkpoint'
absent k
diff -r before ck || fail "the checkpoint changed"
expect 1 verify-ckpt-id manifest d --out d/f; says 'd/f: is there already and is not a manifest'
# --- runs that write one file take turns ---
for i in 1 2 3 4 5 6; do verify-ckpt-id manifest right --out turns.json -q >/dev/null 2>>turns.err & done; wait
[ ! -s turns.err ] || { fail "at once"; cat turns.err; }
absent turns.json.lock; absent turns.json.tmp

# --- an empty value is wrong use, and nothing is made of it ---
mkdir empty; cd empty || exit 1
for try in 'build-planescache ../ck --out' 'build-fp4-packs --from-planescache ../right --out' 'pack-chunks unpack ../packed -C' \
  'verify-ckpt-id manifest ../d --out' 'verify-ckpt-id verify' 'verify-ckpt-id check --planescache' 'repack-experts gate'; do
  expect 2 $try ''; says 'is empty'
done
[ -z "$(ls -A)" ] || fail "something was made: $(ls -A)"
cd ..

# --- what is not a directory, and an identity that no terminal shows ---
expect 2 "${CACHE[@]}" --out ck/config.json; says 'lies inside the checkpoint'
: >plain; expect 1 "${CACHE[@]}" --out plain; says 'plain: is not a directory'; rm plain
expect 2 build-planescache ck --out odd --ckpt-id $'a\n\'b'; says 'has control characters'
finish
