# repack-experts gate: 16 levels give back identical bytes.
. "$SOURCE/tests/cli/common.sh"
MINI=$GOLDEN/ds4-mini/checkpoint

expect 0 repack-experts gate "$MINI"
prints '^model-00002-of-00004.safetensors: 9 expert tensors, 108 KiB \(110592 bytes\)$'
prints '^model-00003-of-00004.safetensors: 9 expert tensors'
prints '^passed'
expect 0 repack-experts gate "$MINI" --file model-00003-of-00004.safetensors
grep -q 00002 "$WORK/out" && fail "a shard that was not named was checked"
expect 0 repack-experts gate "$MINI" --file model-00003-of-00004.safetensors model-00002-of-00004.safetensors --json
prints '"passed": true'
expect 2 repack-experts gate "$MINI" --file model-00001-of-00004.safetensors
says 'not a shard with expert weights'
expect 1 repack-experts gate "$GOLDEN/fp8-blocks/checkpoint"
says 'MXFP4'
expect 1 repack-experts gate "$WORK"
expect 2 repack-experts gate

# What build writes with 15 and 16 levels is the source, in every granularity.
for granularity in tensor tensor-sym expert row block32; do
  for levels in 15 16; do
    expect 0 repack-experts build -q "$MINI" "$WORK/$granularity$levels" --levels $levels --granularity $granularity
    for file in "$MINI"/*; do same "$file" "$WORK/$granularity$levels/$(basename "$file")"; done
  done
done
finish
