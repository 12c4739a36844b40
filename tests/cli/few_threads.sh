# A system that refuses to start threads, or memory for them (few_threads.cc): the programs go on with those that they have.
. "$(dirname "$0")/common.sh"
shim=$BIN/../tests/bin/few-threads.so
[ -e "$shim" ] || skip "few-threads.so is not built: with sanitizers nothing can be loaded before them"
. "$SOURCE/tests/tools/hub.sh"
with_threads() { local count=$1; shift; timeout 60 env FEW_THREADS="$count" LD_PRELOAD="$shim" "$@"; }
mkdir src && noise 1500000 >src/noise && seq 1 50000 >src/numbers
expect 0 pack-chunks pack src --name set --part-size 300kB --frame-size 64KiB --out $repo -q
mkdir right && make-checkpoint --layers 3 --experts 6 -o many -q >/dev/null
expect 0 build-planescache many -o right/c --store right/s --tiers base,fp4 --ckpt-id x -q
expect 0 verify-ckpt-id id many && mv "$WORK/out" id
start_hub
for count in 0 1 3; do
  rm -rf made && mkdir made
  expect 0 with_threads $count build-planescache many -o made/c --store made/s --tiers base,fp4 --ckpt-id x -T 8 -q
  diff -r right made || fail "$count threads: another cache or other packs"
  expect 0 with_threads $count verify-ckpt-id id many -T 8 --recompute
  same "$WORK/out" id
  expect 0 with_threads $count pack-chunks pack src --name set --part-size 300kB --frame-size 64KiB --out made/parts -T 8 -q
  same made/parts/set.tar.zst.part.002 $repo/set.tar.zst.part.002
  expect 0 with_threads $count pack-chunks unpack made/parts -C made -T 8 -q
  diff -r src made/src || fail "$count threads: not what was packed"
done

# Two threads are to transfer, two connections each, and one of them is refused. The server ignores ranges, there is memory
# for two ranges, and the first frame is wrong: it is fetched again on a connection that waits for memory, because no other
# connection is free.
expect 1 with_threads 0 pack-chunks fetch "$HF_ENDPOINT/files/models/me/cache/main" set --out none -T 8 -q
says 'no thread can be started to transfer: .*; raise the limit'
for count in 1 2; do
  trouble noranges 'corrupt-name part.000 *1'
  rm -rf got
  expect 0 with_threads $count pack-chunks fetch "$HF_ENDPOINT/files/models/me/cache/main" set --out got -j 4 -T 16 \
    --memory $((2097152 + 135000))
  says 'is damaged'
  diff -r src got/src || fail "$count threads: not what was packed"
done

# No memory for another thread that is to transfer: those that run go on.
trouble
for count in 2 3; do
  rm -rf got
  expect 0 timeout 60 env LAST_MEMORY=$count LD_PRELOAD="$shim" pack-chunks fetch \
    "$HF_ENDPOINT/files/models/me/cache/main" set --out got -j 8 -T 16 -q
  diff -r src got/src || fail "no memory after $count threads: not what was packed"
done
finish
