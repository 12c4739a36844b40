# The reports of fidelity and of the tiers in a real browser: no errors, no requests, the plots are there, sorting works, at 1280 and 400
# pixels, light and dark. Screenshots are left in $SCREENSHOTS, where that is set.
. "$SOURCE/tests/cli/common.sh"
command -v chromium > /dev/null || skip "chromium is not installed"
repack-experts analyze -q "$GOLDEN/ds4-mini/checkpoint" --report "$WORK/report.html" > /dev/null 2> "$WORK/err" ||
  { grep -q libjs-chart.js "$WORK/err" && skip "libjs-chart.js was not installed when this was built"; fail "no report"; }
timeout 300 python3 "$SOURCE/tests/full/report.py" "$WORK/report.html" "${SCREENSHOTS:-$WORK}" || fail "the page is not as it should be"
expect 0 make-trace "$WORK/t.npy" --ticks 200 --layers 5 --experts 40 -q
expect 0 size-tiers "$WORK/t.npy" --report "$WORK/tiers.html" -q
timeout 300 python3 "$SOURCE/tests/full/report.py" "$WORK/tiers.html" "${SCREENSHOTS:-$WORK}" || fail "the tiers' page is not as it should be"
finish
