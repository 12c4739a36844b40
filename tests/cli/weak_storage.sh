# Storage that can do less (weak_storage.cc): noted once where the result is right nevertheless, an error with advice where
# it cannot be. And a tight disk: leftovers of a run count as free space.
source "$(dirname "$0")/common.sh"
shim=$BIN/../tests/bin/weak-storage.so
[ -e "$shim" ] || skip "weak-storage.so is not built: with sanitizers nothing can be loaded before them"
mkdir "$WORK/here" && cd "$WORK/here" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint RIGHT=$GOLDEN/ds4-mini/expected/tp1
weakly() { local words=$1; shift; WEAK=$words LD_PRELOAD=$shim "$@"; }
whole() { diff -r right out >/dev/null || fail "$1: not what was to be built"; rm -rf out; }
once() { [ "$(grep -Ec -- "$1" "$WORK/err")" = 1 ] || { fail "not said once: $1"; sed 's/^/    /' "$WORK/err" | tail -5; }; }
EINVAL=22 ENOTSUP=95 ENOTTY=25 EBADF=9 EROFS=30 ENOSYS=38 ENOLCK=37 EIO=5 EAGAIN=11 EPERM=1 EXDEV=18 ENOSPC=28
build="build-planescache $CK -o out/planescache --store out/store --tiers base,delta --ckpt-id golden-ds4-mini"
expect 0 $build && mv out right

for error in $EINVAL $ENOTSUP $ENOTTY $EBADF $EROFS; do
  expect 0 weakly "dirsync=$error" $build && once 'cannot sync directories'
  whole "directory sync: $error"
done
expect 1 weakly "dirsync=$EIO" $build && says 'cannot sync the directory'
rm -rf out

# The engine's own protocol needs flock; a planes cache does not.
for error in $ENOSYS $ENOLCK $ENOTSUP; do
  expect 1 weakly "noflock=$error" $build && says 'mount it with flock'
  absent out
  expect 0 weakly "noflock=$error" build-planescache "$CK" -o out/planescache --ckpt-id golden-ds4-mini
  once 'lock files made exclusively'
  diff -r -x '*manifest.json' "$RIGHT/planescache" out/planescache >/dev/null || fail "no flock: not what was to be built"
  [ -z "$(find out -name '*.held*' -o -name '*.lock')" ] || fail "locks are left"
  rm -rf out
done
expect 1 timeout 60 env WEAK=inode LD_PRELOAD="$shim" $build && says 'has a different inode each time'
rm -rf out

expect 0 weakly nochmod $build; whole "no modes"
expect 0 weakly nogrow $build; whole "files that only writing lengthens"
expect 0 weakly stale $build
for command in check list; do
  expect 0 weakly stale verify-ckpt-id $command --planescache out/planescache --store out/store
  ! grep -Eq 'MISS|missing|INCOMPLETE' "$WORK/out" || fail "$command: a stale handle taken for a missing file"
done
whole "stale handles"
expect 0 weakly ctime $build; expect 0 weakly ctime $build; prints '0 converted'; whole "ctime that moves"
expect 0 weakly ctime verify-ckpt-id id "$CK" --recompute
expect 0 weakly nospace $build && once 'does not tell how much space'
expect 0 build-planescache "$CK" -o out/planescache --ckpt-id golden-ds4-mini --no-space-check -q
for error in $EAGAIN $EPERM $EINVAL $ENOTSUP $ENOTTY $EXDEV; do
  expect 0 weakly "clone=$error" build-fp4-packs --from-planescache out/planescache -o packs --tiers base,delta
  for file in packs/*.pack; do same "$file" "out/store/${file##*/}"; done
  rm -rf packs
  expect 1 weakly "clone=$error" build-fp4-packs --from-planescache out/planescache -o packs --tiers base --reflink always
  rm -rf packs
done
for error in $ENOSPC $EIO; do
  expect 1 weakly "clone=$error" build-fp4-packs --from-planescache out/planescache -o packs --tiers base
  rm -rf packs
done

# Another identity without hard links, or where a directory cannot be moved.
rekey="verify-ckpt-id rekey --planescache out/planescache --store out/store --from golden-ds4-mini --to other"
cp -a out before
for error in $EPERM $EXDEV; do
  expect 1 weakly "nolink=$error" $rekey && says 'refuses hard links.*--copy'
  diff -r out before >/dev/null || fail "a refused rekey changed something"
  expect 0 weakly "nolink=$error" $rekey --copy
  expect 0 verify-ckpt-id check --planescache out/planescache --store out/store --config "$CK" --ckpt-id other
  [ "$(find out -type f | wc -l)" = "$(find before -type f | wc -l)" ] || fail "files of the old identity are left"
  rm -rf out; cp -a before out
done
expect 0 weakly nomovedir $rekey
expect 0 verify-ckpt-id check --planescache out/planescache --store out/store --config "$CK" --ckpt-id other
[ "$(find out -type f | wc -l)" = "$(find before -type f | wc -l)" ] || fail "files of the old identity are left"
rm -rf out before

# Archives and repacked checkpoints.
mkdir -p src/tree; seq 1 60000 >src/tree/numbers; echo text >src/tree/text; chmod 640 src/tree/text
pack="pack-chunks pack src/tree --name set --out parts --part-size 100kB --frame-size 16KiB"
repack="repack-experts build $CK r --levels 4 --granularity tensor-sym --link copy"
unpacked() { diff -r src/tree u/tree >/dev/null || fail "$1: not what was packed"; absent u/.set.unpack; rm -rf u; }
expect 0 $pack -q && mv parts right.parts; expect 0 $repack -q && mv r right.r
for weak in stale nochmod nogrow nospace ctime dirsync=$EINVAL noflock=$ENOSYS clone=$EPERM nolink=$EPERM; do
  expect 0 weakly $weak $pack && { diff -r right.parts parts >/dev/null || fail "$weak: other parts"; }
  [ $weak != ctime ] || expect 0 weakly $weak $pack
  expect 0 weakly $weak pack-chunks verify parts --deep
  expect 0 weakly $weak pack-chunks unpack parts -C u
  [ $weak != nochmod ] || once 'the mode cannot be set here'
  [ $weak != nospace ] || once 'does not tell how much space'
  unpacked "$weak"
  expect 0 weakly $weak pack-chunks unpack - --name set -C u < <(cat parts/*.part.*); unpacked "$weak, a stream"
  expect 0 weakly $weak $repack && { diff -r -x .repack-experts right.r r >/dev/null || fail "$weak: another checkpoint"; }
  expect 0 weakly $weak $repack && prints 'finished before'
  rm -rf parts r
done
expect 1 weakly dirsync=$EIO pack-chunks unpack right.parts -C u && says 'cannot sync the directory'; rm -rf u

# Whatever a program is doing, the second signal ends it.
expect 0 make-trace trace.npy --ticks 100 --layers 2 --experts 8 --per-layer 2 -q
while read -r command; do
  WEAK=stuck LD_PRELOAD=$shim $command >/dev/null 2>err & pid=$!  # no function: its process would be a shell
  sleep 0.4; kill -TERM $pid; sleep 0.3; kill -TERM $pid 2>/dev/null
  for _ in $(seq 50); do kill -0 $pid 2>/dev/null || break; sleep 0.1; done
  ! kill -9 $pid 2>/dev/null || fail "two signals do not end $command"
  wait $pid; got=$?; [ $got = 143 ] || fail "exit $got after two signals: $command"
done <<END
build-planescache $CK -o signalled --ckpt-id x
build-fp4-packs $CK -o signalled --ckpt-id x
verify-ckpt-id id $CK --recompute
pack-chunks pack src/tree --name two --out signalled
repack-experts gate $CK
size-tiers trace.npy
END
rm -rf signalled

# A lock that another run holds: the wait says for whom, and the first signal ends it.
mkdir -p out/store
expect 0 build-fp4-packs "$CK" -o out/store --tiers base --ckpt-id x -q
lock=$(ls out/store/*.lock)
[ "$(stat -c %a "$lock")" = 600 ] || fail "the lock of a pack is open to others"
python3 -c 'import fcntl, sys, time; f = open(sys.argv[1]); fcntl.flock(f, 2); open("held", "w"); time.sleep(60)' "$lock" & holder=$!
for _ in $(seq 200); do [ ! -e held ] || break; sleep 0.1; done
build-fp4-packs "$CK" -o out/store --tiers base --ckpt-id x --force >/dev/null 2>err & waiting=$!
for _ in $(seq 100); do grep -q '^waiting for .*held by process' err && break; sleep 0.1; done
grep -q 'waiting for .*\.lock, held by process [0-9]* of user' err || fail "the wait says nothing: $(cat err)"
kill "$waiting"; wait "$waiting"; [ $? = 143 ] || fail "the wait goes on after a signal"
kill "$holder"; wait "$holder" 2>/dev/null
rm -rf out

# A tight disk.
tight() { mkdir -p disk && mount -t tmpfs -o size="$1" none disk 2>/dev/null; }
if tight 2200k; then
  trap 'umount "$WORK/here/disk"; rm -rf "$WORK"' EXIT
  cache="build-planescache $CK -o disk/c --ckpt-id x"
  expect 0 $cache --layers 0
  used=$(du -sk disk | cut -f1)
  umount disk; tight $((2 * used + 60))k
  expect 0 $cache --layers 0
  rank=$(dirname "$(ls disk/c/v2/*/*/meta.json)")
  cp "$rank/layer0.planes13.bin" "$rank/layer1.planes13.bin.tmp"
  expect 0 $cache --layers 1
  umount disk; tight $((3 * used + 80))k
  expect 0 $cache
  # As many layers side by side as there is room for.
  for threads in 1 2 8; do expect 0 $cache --force -T $threads; done
  umount disk; tight 60k
  expect 1 $cache && says 'not enough space: .*--no-space-check'
  # Every writing program refuses what does not fit, but starts anyway with --no-space-check.
  expect 1 pack-chunks unpack right.parts -C disk/u && says 'not enough space: .*--no-space-check'
  pack-chunks unpack right.parts -C disk/u --no-space-check >/dev/null 2>err; [ $? = 1 ] && grep -q 'No space left' err || fail "unpack --no-space-check: $(cat err)"
  rm -rf disk/u
  expect 1 repack-experts build "$CK" disk/r --levels 4 --granularity tensor-sym --link copy && says 'not enough space: .*--no-space-check'
  expect 1 pack-chunks pack src/tree --level 0 --name set --out disk/p && says 'not enough space: .*--no-space-check'
  umount disk; tight 700k
  # What a killed run left is room, and so is what is replaced, file by file.
  expect 0 repack-experts build "$CK" disk/r --levels 4 --granularity tensor-sym --link copy
  used=$(du -sk disk | cut -f1); umount disk; tight $((used * 5 / 4 + 20))k
  mkdir -p disk/r; expect 0 repack-experts build "$CK" disk/r --levels 4 --granularity tensor-sym --link copy
  large=$(ls -S disk/r/*.safetensors | head -1); mv "$large" "$large.tmp"
  expect 0 repack-experts build "$CK" disk/r --levels 4 --granularity tensor-sym --link copy
  umount disk; trap 'rm -rf "$WORK"' EXIT
else
  echo "SKIPPED: a tight disk (mounting a tmpfs is not allowed)"
fi
finish
