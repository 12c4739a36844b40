# quantize, finish and translate end with the command that comes next, which is run here as printed.
. "$(dirname "$0")/common.sh"
python_with numpy
export PYTHONPATH=$SOURCE/tests/tools PYTHONDONTWRITEBYTECODE=1
D="$WORK/here/it's \"a\" \$place"
mkdir -p "$D" && cd "$D" || exit 1
judge() { python "$SOURCE/tests/tools/rewrite_judge.py" make "$@"; }

expect 0 judge floats "bf 16" kinds=plain drafter=layer
for to in nvfp4 mxfp4; do follow repack-experts quantize "bf 16" "q $to" --to $to; done
follow repack-experts finish "q nvfp4" --from "bf 16" "f 1"
expect 0 judge ct-nvfp4 "c t"
follow repack-experts translate "c t" "t 1" --gate
ends repack-experts translate "c t" "t 2" -n
ends repack-experts quantize "bf 16" "q 3" --to nvfp4 -n
ends repack-experts finish "q nvfp4" --from "bf 16" "f 2" -n
finish
