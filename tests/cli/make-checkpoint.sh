#!/usr/bin/env bash
# The checkpoint generator: determinism, holes, real headers, refusals.
. "$(dirname "$0")/common.sh"
cd "$WORK" || exit 1
small="--layers 2 --experts 3 --hidden 256 --intermediate 128 --progress none"
blocks() { du -k "$1" | cut -f1; }

for family in mxfp4 fp8 nvfp4 kimi; do
  expect 0 make-checkpoint -o "$family" --family $family $small -T 1
  expect 0 make-checkpoint -o "$family.again" --family $family $small -T 3
  diff -r "$family" "$family.again" >/dev/null || fail "$family: two runs differ"
done
expect 0 make-checkpoint -o other $small --seed 2
cmp -s mxfp4/model-00001-of-00002.safetensors other/model-00001-of-00002.safetensors && fail "the seed changes nothing"

# What is not asked for is a hole; what is asked for equals the whole run's.
expect 0 make-checkpoint -o none $small --fill-layers none --shards 1
[ "$(blocks none/model-00001-of-00001.safetensors)" -lt 64 ] || fail "a run that fills nothing takes space"
expect 0 make-checkpoint -o one $small --fill-layers 1
prints 'filled'
expect 1 make-checkpoint -o one $small
says 'one: is not empty'
expect 2 make-checkpoint -o bad --layers 2 --hidden 100
absent bad
expect 2 make-checkpoint -o bad $small --fill-layers 1-
absent bad

# From kept headers: the same tensors at the same places.
mkdir -p kept/headers
cp mxfp4/config.json kept/
for shard in mxfp4/*.safetensors; do
  length=$(od -An -t u8 -N 8 "$shard" | tr -d ' ')
  tail -c +9 "$shard" | head -c "$length" >"kept/headers/$(basename "$shard").json"
done
expect 0 make-checkpoint -o copy --from-headers kept --fill-layers all --progress none
for file in mxfp4/*; do
  case $file in *.safetensors | */config.json) same "$file" "copy/$(basename "$file")" ;; esac
done
expect 1 make-checkpoint -o copy2 --from-headers mxfp4
says 'no \*\.safetensors\.json'

# The headers of a real checkpoint, if they are available.
real=$SHARED/real/ds4-flash-0731-reap160/headers.tar.xz
if [ -e "$real" ]; then
  mkdir real && tar -C real -xf "$real"
  expect 0 make-checkpoint -o big --from-headers real
  prints '48 shards, 100 GiB \(107803320952 bytes\), filled 0 bytes'
  [ "$(blocks big)" -lt 20000 ] || fail "holes take space"
else
  echo "SKIPPED: the part that uses $real, which is not there"
fi
finish
