#!/usr/bin/env bash
# scripts/regenerate.sh: from a checkpoint to the environment to serve with.
. "$(dirname "$0")/common.sh"
# The scripts alone, as they are installed: the programs are those on the path.
mkdir "$WORK/scripts" && cp "$SOURCE"/scripts/{common,regenerate,publish,serve}.sh "$SOURCE/scripts/serve.py" "$WORK/scripts/"
PATH=$WORK/scripts:$PATH
cd "$WORK" || exit 1
export XDG_CACHE_HOME=$WORK/known
expect 0 make-checkpoint -o model --layers 2 --experts 4 --progress none

expect 2 regenerate.sh model
[ "$(cat "$WORK/out")" = false ] || fail "a failure is not false on standard output"
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

# Serving profiles that the files are for are in the README.md, others are not.
mkdir serve profiles
echo '{"geometry": {"layers": 2, "experts": 4, "hidden": 512, "intermediate": 256}}' >profiles/Mini.json
sed 's/"DeepSeek-V4-Flash-0731"/"Mini"/; s/flash-0731-max-quality/mini/; s/"mode": "resident"/"mode": "host"/' "$SOURCE/manifests/serve/flash-0731-max-quality.json" >serve/mini.json
sed 's/"mode": "host"/"mode": "resident-split"/; s/"mini"/"mini-split"/' serve/mini.json >serve/mini-split.json
sed 's/"Mini"/"Other"/; s/"mini"/"other-model"/' serve/mini.json >serve/other-model.json
echo '{"geometry": {"layers": 43, "experts": 4}}' >profiles/Other.json
expect 0 regenerate.sh model made --tiers base,fp4 --publish
if command -v python3 >/dev/null; then
  grep -q '^    serve.sh mini --checkpoint CHECKPOINT --planescache DIR/planescache --store DIR/moet_store$' made/chunks/README.md ||
    fail "README.md lacks the serving profile"
  grep -qE 'other-model|mini-split' made/chunks/README.md && fail "README.md has a serving profile of other files"
fi

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
expect 1 regenerate.sh other made --tiers none --publish; says 'manifest.planescache.json: is there already and was made from other files'
[ "$(cat "$WORK/out")" = false ] || fail "an environment although the chunks are others"
expect 0 verify-ckpt-id prune --keep "$id" --planescache made/planescache --force

# The default is resident, for an FP8 checkpoint host; what is printed is what check takes.
under() { (eval "$(cat "$1")" && shift && "$@"); }
expect 0 regenerate.sh model resident
cp "$WORK/out" env; prints '^export VLLM_MOE_W2_STORE_DIR='
expect 0 under env verify-ckpt-id check --from-environment --checkpoint model
prints '^mode resident: '
expect 0 regenerate.sh model split --for resident-split
cp "$WORK/out" env; prints '^export VLLM_MOE_W2_DELTA_SPLIT=1$'
expect 0 under env verify-ckpt-id check --from-environment --checkpoint model
prints '^mode resident-split: '
expect 0 regenerate.sh "$GOLDEN/glm-fp8-mini/checkpoint" fp8
absent fp8/planescache
cp "$WORK/out" env
expect 0 under env verify-ckpt-id check --from-environment --checkpoint "$GOLDEN/glm-fp8-mini/checkpoint"
prints '^mode host: '
finish
