# size-tiers against an independent judge: every row of the curve and of the replays computed the slow way with NumPy.
. "$SOURCE/tests/cli/common.sh"
python_with numpy
cd "$WORK" || exit 1
judged() {  # judged ROWS SIZE-TIERS-ARGUMENT... -- TRACE...
  local rows=$1 arguments=(); shift
  while [ "$1" != -- ]; do arguments+=("$1"); shift; done; shift
  expect 0 size-tiers "$@" "${arguments[@]}" --json -q || return
  cp out said
  expect 0 python "$SOURCE/tests/tools/replay.py" "$@" <said; prints "^$rows rows compared"
}
expect 0 make-trace t.npy --ticks 1200 --layers 3 --experts 24 --per-layer 4 --sessions 2 --drift 0.05 -q
judged 36 --slots 2,8,30,72 --policy engine,belady,sorted/lru,round-robin/lfu,freq/lfu:promote=2 \
  --policy engine:hyst=1.25,sorted/aged-lfu:threshold=3:cap=9,need -- t.npy.0 t.npy.1
for form in --fortran --int64 --shuffle; do
  expect 0 make-trace u.npy --ticks 300 --layers 4 --experts 16 $form -q
  judged 9 --slots 1,5,33 --policy engine,belady -- u.npy
done
finish
