# Exit statuses: layers that another run is writing, signals.
. "$(dirname "$0")/common.sh"
command -v flock >/dev/null || skip "flock is needed to stand for another run"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint
expect 0 build-planescache "$CK" -o c --ckpt-id a --layers 1 && prints '^complete  no: layers are missing'
D=$(echo c/v2/*/tp1-rank0)

# hold LOCK: another run has it, until release.
hold() {
  rm -f held released
  flock -o -x "$1" sh -c "touch held; until [ -e released ]; do sleep 0.05; done" & holder=$!
  until [ -e held ]; do sleep 0.02; done
}
release() { touch released; wait $holder; }

# Layers that are asked for and being written by another run: 4; others do not count.
hold "$D/.planesmith.layer0.lock"
expect 4 build-planescache "$CK" -o c --ckpt-id a
prints '^complete  no: another run is still writing layers 0; --wait waits for it'
says 'layer 0: another run has it'
expect 4 build-planescache "$CK" -o c --ckpt-id a --json && prints '"exit": 4' && prints '"ok": false'
expect 0 build-planescache "$CK" -o c --ckpt-id a --layers 1
# --wait takes what the other run leaves.
(sleep 1; touch released) &
expect 0 build-planescache "$CK" -o c --ckpt-id a --wait
prints '^complete  all layers'
[ "$(grep -c 'another run has it' "$WORK/err")" = 1 ] || fail "said more than once while waiting"
wait $holder
expect 0 verify-ckpt-id verify c

# The same of packs.
expect 0 build-fp4-packs --from-planescache c --out s --tiers base --layers 1
stem=$(basename s/base.*.pack .pack)
hold "s/.$stem.layer0.lock"
expect 4 build-fp4-packs --from-planescache c --out s --tiers base && prints 'another run is still writing'
(sleep 1; touch released) &
expect 0 build-fp4-packs --from-planescache c --out s --tiers base --wait && prints '^complete  all'
wait $holder

# Signals: 128 + their number, and with --json still a document.
for signal in HUP:129 INT:130 TERM:143; do
  rm -rf new; cp -r c new; hold "new/${D#c/}/.planesmith.lock"
  build-planescache "$CK" -o new --ckpt-id a --force --json >"$WORK/out" 2>"$WORK/err" & pid=$!
  sleep 0.5; kill -${signal%:*} $pid; wait $pid; got=$?
  [ $got = ${signal#*:} ] || fail "SIG${signal%:*}: exit $got"
  prints "\"exit\": ${signal#*:}"; prints '"code": "stopped"'; says 'a second signal ends the program at once'
  release
done
# nohup means that.
rm -rf new; cp -r c new; hold "new/${D#c/}/.planesmith.lock"
(trap '' HUP; exec build-planescache "$CK" -o new --ckpt-id a --force -q >"$WORK/out" 2>"$WORK/err") & pid=$!
sleep 0.3; kill -HUP $pid; release; wait $pid || fail "SIGHUP that was ignored ended it"
finish
