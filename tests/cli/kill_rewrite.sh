# quantize and translate killed (SIGKILL) after each of their file operations in turn: a shard under its final name is whole, the
# index comes last, and the same command ends in the same bytes. Then from a BF16 fine-tune to a served cache in four commands.
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm  # thousands of syncs
. "$SOURCE/tests/cli/common.sh"
python_with numpy
mkdir "$WORK/here" && cd "$WORK/here" || exit 1
export PYTHONPATH=$SOURCE/tests/tools PYTHONDONTWRITEBYTECODE=1
clean() { rm -rf t; }
again() {
  for file in t/*.safetensors t/*.json; do
    [ ! -f "$file" ] || cmp -s "$file" "right/${file#t/}" || fail "$file has its final name and is not whole"
  done
  [ ! -e t/model.safetensors.index.json ] || diff -rq -x .repack-experts right t >/dev/null || fail "the index is there before the rest"
  "${command[@]}" >/dev/null 2>"$WORK/err" || fail "the second run: $(cat "$WORK/err")"
  diff -r -x .repack-experts right t >"$WORK/err" || fail "after the second run: $(cat "$WORK/err")"
}
killed() {
  command=("$@")
  "$@" >/dev/null 2>"$WORK/err" || fail "$*: $(cat "$WORK/err")"; rm -rf right; mv t right
  kill_after_each clean again "$@"
  echo "$2: $kills kills"
  [ "$kills" -gt 15 ] || fail "$2: too few operations"
}
tool() { python "$SOURCE/tests/tools/rewrite_judge.py" "$@"; }
tool make floats s fused=yes drafter=layer
killed repack-experts quantize s t --to nvfp4 -T 3
tool quantized s t nvfp4 || fail "what was made is not what it should be"
rm -rf s t; tool make ct-mixed s
killed repack-experts translate s t -T 3
tool translated s t || fail "what was made is not what it should be"

# Another number of threads, another instruction set: the same bytes. A changed source is another build.
for flags in "-T 1" "-T 7" "--isa scalar" "--isa avx2"; do
  rm -rf t; repack-experts translate -q s t $flags >/dev/null 2>"$WORK/err" || { says 'cannot run'; continue; }
  diff -r -x .repack-experts right t >/dev/null || fail "with $flags the bytes differ"
done
rm t/model-00002-of-00002.safetensors; touch s/config.json
sed -i 's/"model_type": "test"/"model_type": "tests"/' s/config.json
expect 0 repack-experts translate s t; grep -q '"tests"' t/config.json || fail "the changed config.json is not taken over"

# The README's four commands: a BF16 fine-tune, fused, with a drafter and a truncating tokenizer, to the engine's environment.
rm -rf s t right
tool make floats s fused=yes drafter=layer kinds=plain
echo '{"version": "1.0", "truncation": {"max_length": 8}, "model": {"vocab": {"a": 0}}}' >s/tokenizer.json
expect 0 repack-experts quantize s t --to nvfp4
expect 0 repack-experts finish t --from s served; prints 'truncation of tokenizer.json is cleared'; prints ' 0 errors'
expect 0 verify-ckpt-id audit served --against s; prints ' 0 errors'
expect 0 bash "$SOURCE/scripts/regenerate.sh" served cache; cp "$WORK/out" environment.sh
(eval "$(cat environment.sh)" && [ -d "$VLLM_MOE_W2_PLANES_CACHE" ] && [ -n "$VLLM_MOE_W2_CKPT_ID" ]) || fail "no environment"
expect 0 verify-ckpt-id check --planescache cache/planescache --checkpoint served --sample 4
finish
