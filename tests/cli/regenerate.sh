#!/usr/bin/env bash
# scripts/regenerate.sh and scripts/serve.sh: from a checkpoint to the command that serves it.
. "$(dirname "$0")/common.sh"
# The scripts alone, as they are installed: the programs are those on the path.
mkdir "$WORK/scripts" && cp "$SOURCE"/scripts/{common,regenerate,serve,publish}.sh "$WORK/scripts/"
PATH=$WORK/scripts:$PATH
cd "$WORK" || exit 1
export XDG_CACHE_HOME=$WORK/known
expect 0 make-checkpoint -o model --layers 2 --experts 4 --progress none

expect 2 regenerate.sh model
says 'give a checkpoint and an output directory'
expect 2 regenerate.sh model made --wrold 2
says '^usage: regenerate'
expect 2 regenerate.sh model made --world
expect 0 regenerate.sh model made --dry-run
absent made

expect 0 regenerate.sh model made --tiers base,fp4 --publish
[ "$(grep -cv '^export ' "$WORK/out")" = 0 ] || fail "standard output is not only the environment"
id=$(eval "$(cat "$WORK/out")" && echo "$VLLM_MOE_W2_CKPT_ID")
[ ${#id} = 64 ] || fail "no content id in the environment"
for file in made/planescache/v2/*/tp1-rank0/manifest.json made/packs/base.*.pack made/packs/fp4.*.pack \
  made/chunks/planescache.tar.zst.part.000 made/chunks/manifest.planescache.json made/chunks/store.tar.zst.part.000 \
  made/chunks/SHA256SUMS.store made/chunks/README.md; do
  [ -s "$file" ] || fail "$file is not made"
done

grep -q "$id" made/chunks/README.md && grep -q '^- experts (E): `4`$' made/chunks/README.md || fail "README.md lacks identity or geometry"
pack-chunks list made/chunks --name store | grep -q ' moet_store/$' || fail "the store does not extract to moet_store"

# Started again: nothing changes. After a loss: what was lost is made again.
cp -r made first
expect 0 regenerate.sh model made --tiers base,fp4 --publish
diff -r first made || fail "a second run changed something"
rm made/planescache/v2/*/tp1-rank0/layer1.planes2.bin
expect 0 regenerate.sh model made --tiers base,fp4 --publish
diff -r first made || fail "the lost file did not come back as it was"

says 'compared with the checkpoint'

# Another checkpoint into the same place: the cache then has two identities, and the environment is that of the second.
expect 0 make-checkpoint -o other --layers 2 --experts 4 --seed 2 --progress none
expect 0 regenerate.sh other made --tiers none
second=$(eval "$(cat "$WORK/out")" && echo "$VLLM_MOE_W2_CKPT_ID")
[ ${#second} = 64 ] && [ "$second" != "$id" ] || fail "the environment is not the second checkpoint's: $second"
# Chunks of before are not published for it.
expect 1 regenerate.sh other made --tiers none --publish; says 'manifest.planescache.json: is there already and was not made from these files'
[ ! -s "$WORK/out" ] || fail "an environment although the chunks are others"
expect 0 verify-ckpt-id prune --keep "$id" --planescache made/planescache --force

cache=made/planescache
expect 0 serve.sh quality --checkpoint model --planescache $cache --store made/packs -- --port 9000
prints "VLLM_MOE_W2_CKPT_ID=$id "
prints "^docker run .* --model /model .*--port 9000"
printf '#!/bin/sh\nprintf "%%s\\n" "$@"\n' >runtime && chmod +x runtime
expect 0 serve.sh speed --checkpoint model --planescache $cache --runtime ./runtime --image engine --run
prints "^VLLM_MOE_W2_CKPT_ID=$id$"
prints '^engine$'
expect 3 serve.sh balanced --checkpoint model --planescache $cache
[ ! -s "$WORK/out" ] || fail "a command is printed although the cache is not the one for it"
truncate -s -1 $cache/v2/*/tp1-rank0/layer0.sc13.bin
expect 3 serve.sh speed --checkpoint model --planescache $cache
[ ! -s "$WORK/out" ] || fail "a command is printed although the check failed"
expect 2 serve.sh fast --checkpoint model --planescache $cache
expect 2 serve.sh speed --planescache $cache
finish
