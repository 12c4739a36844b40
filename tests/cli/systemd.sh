# The units of scripts/systemd: what their ExecStart runs, and that systemd takes them.
. "$(dirname "$0")/common.sh"
cd "$WORK" || exit 1
UNITS=$SOURCE/scripts/systemd
expect 0 build-planescache "$GOLDEN/ds4-mini/checkpoint" -o "$WORK/cache" --store "$WORK/packs" --ckpt-id a -q

# exec_start UNIT: runs it as systemd would, with the variables of verify.conf.
exec_start() {
  local line; line=$(sed -n 's/^ExecStart=//p' "$UNITS/$1")
  env PATHS="$WORK/cache $WORK/packs" HOOK="$WORK/hook" OPTIONS="${OPTIONS:-}" sh -c "$line"
}
expect 0 exec_start planesmith-verify.service
prints '^4 of 4 are what their manifests say'
OPTIONS="--read-data-subset 25%" expect 0 exec_start planesmith-verify.service
part=$(echo cache/v2/*/tp1-rank0/layer0.fp2.bin)
printf X | dd of="$part" bs=1 seek=3 conv=notrunc status=none
expect 3 exec_start planesmith-verify.service
prints 'layer0.fp2.bin: expert 0'
prints 'to do: verify-ckpt-id repair'

# The hook gets what the journal says.
printf '#!/bin/sh\ncat >%s/told\n' "$WORK" >hook; chmod +x hook
mkdir bin; printf '#!/bin/sh\necho "journal of $*"\n' >bin/journalctl; chmod +x bin/journalctl
PATH=$WORK/bin:$PATH expect 0 exec_start planesmith-verify-failed.service
grep -q 'planesmith-verify' told || fail "the hook was not told"

if command -v systemd-analyze >/dev/null; then
  mkdir units; cp "$UNITS"/* units
  systemd-analyze verify --man=no units/*.service units/*.timer 2>"$WORK/err" || { fail "systemd-analyze"; head -5 "$WORK/err"; }
else
  echo "SKIPPED: the check by systemd itself, systemd-analyze is not installed"
fi
finish
