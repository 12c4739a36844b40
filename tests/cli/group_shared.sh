# --group-shared: one member of a group goes on where another's unpack or fetch was stopped, at any moment; without it, and for
# those who are no members, everything stays as it is and the message says what to do.
. "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || skip "only root can act as other users"
command -v setpriv >/dev/null || skip "setpriv is not installed"
. "$SOURCE/tests/tools/hub.sh"
chmod 755 "$WORK" "$WORK/here"
SHIM=$BIN/../tests/bin/kill-after.so
# Users of groups of their own, who have a group in common besides.
member() { local user=$1; shift; setpriv --reuid="$user" --regid="$user" --groups=4242 env XDG_CACHE_HOME=/nonexistent "$@"; }
stranger() { setpriv --reuid=4203 --regid=4203 --clear-groups env XDG_CACHE_HOME=/nonexistent "$@"; }
member 4201 pack-chunks --version >/dev/null 2>&1 || skip "other users may not run the programs from here"
mkdir -p src/tree/{sub,closed} && noise 900000 >src/tree/noise && noise 300000 >src/tree/sub/more && seq 20000 >src/tree/numbers
cp src/tree/numbers src/tree/read-only && cp src/tree/numbers src/tree/closed/own && ln -s numbers src/tree/link
truncate -s 3M src/tree/hole
chmod 444 src/tree/read-only; chmod 600 src/tree/closed/own; chmod 700 src/tree/closed
pack-chunks pack src/tree --name set --part-size 300kB --frame-size 64KiB --out parts -q >/dev/null || fail "pack"
(cd src && tar -cf - tree | zstd -q | split -b 300000 - "$WORK/here/$repo/foreign.tar.zst.part.")
mkdir -p $repo/plain && cp src/tree/noise src/tree/numbers $repo/plain/ && cp parts/* $repo/ && chmod -R a+rX parts
start_hub
contents() { (cd "$1" && find . -type f -exec sha256sum {} + -o -type l -printf '%p -> %l\n' | sort); }
target() { rm -rf out; mkdir out; chgrp 4242 out; chmod 2770 out; }
clean() { [ -z "$(find out -name '.*' -o -name '*.tmp')" ] || fail "$1: left: $(find out -name '.*' -o -name '*.tmp')"; }

# The mask lets a group do nothing: what is shared is so by the flag alone.
umask 077
chmod -R a+rX "$WORK/here/src" "$WORK/here/parts"
goes_on() {  # goes_on WHAT RIGHT COMMAND...: of the runs that are killed, most leave something
  local what=$1 right=$2 n went_on=0; shift 2
  for n in 3 8 14 20 26 33 41 60 90; do
    target
    member 4201 env LD_PRELOAD="$SHIM" KILL_AFTER=$n "$@" --group-shared >/dev/null 2>&1
    [ $? = 137 ] || break
    [ -z "$(ls -A out)" ] || went_on=$((went_on + 1))
    expect 0 member 4202 "$@" --group-shared || { fail "  $what, killed after operation $n"; find out -printf '%M %u:%g %p\n' | head -20; }
    [ "$(contents "$right")" = "$(contents "out/${right#src/}")" ] || fail "$what, killed after operation $n: not what was packed"
    clean "$what, killed after operation $n"
  done
  echo "$what: another member went on $went_on times"
  [ $went_on -ge 2 ] || fail "$what: a member went on only $went_on times"
}
if [ -e "$SHIM" ]; then
  goes_on unpack src/tree pack-chunks unpack parts -C out -T 1
  # The group may do what the owner may, and no one else anything that the mask does not allow.
  for entry in "noise 660" "read-only 440" "closed/own 660" "closed 2770" "sub 2770"; do
    [ "$(stat -c %a "out/tree/${entry% *}")" = "${entry#* }" ] || fail "${entry% *} has mode $(stat -c %a "out/tree/${entry% *}")"
    [ "$(stat -c %g "out/tree/${entry% *}")" = 4242 ] || fail "${entry% *} is not the group's"
  done
  goes_on "fetch of a set" src/tree pack-chunks fetch hf:me/cache set --out out -j 1 -T 1
  goes_on "fetch of another's set" src/tree pack-chunks fetch hf:me/cache foreign --out out -j 1 -T 1
  mkdir src/plain && cp src/tree/noise src/tree/numbers src/plain/
  goes_on "fetch of files" src/plain pack-chunks fetch hf:me/cache plain --out out -j 1

  # A run that was not shared stays its user's; nor is a stranger's directory taken over.
  target
  member 4201 env LD_PRELOAD="$SHIM" KILL_AFTER=20 pack-chunks unpack parts -C out -T 1 >/dev/null 2>&1
  [ -d out/.set.unpack ] || fail "nothing is left of the run that was killed"
  expect 1 member 4202 pack-chunks unpack parts -C out --group-shared
  says 'out/\.set\.unpack: belongs to user 4201, mode 2?700, who did not share it with the group: let that user go on, or run chmod -R g\+rwX'
  expect 1 member 4202 pack-chunks unpack parts -C out; says 'belongs to user 4201.*--group-shared'
  # The advice, done by the one who may.
  member 4202 pack-chunks unpack parts -C out --group-shared 2>&1 | sed -n 's/.*or run \(chmod .*\); or remove.*/\1/p' >advice
  expect 0 member 4201 bash -e <advice
  expect 0 member 4202 pack-chunks unpack parts -C out --group-shared
  [ "$(contents src/tree)" = "$(contents out/tree)" ] || fail "after the advice: not what was packed"
else
  echo "SKIPPED: runs that are killed (kill-after.so is not built: with sanitizers nothing can be loaded before them)"
fi
# Without /proc, which tells the umask, the group may do the same.
for namespace in "unshare -m" "unshare -rm"; do
  case $BIN in */emulated) break ;; esac  # the emulator reads /proc
  $namespace mount -t tmpfs none /proc 2>/dev/null || continue
  expect 0 $namespace sh -c 'mount -t tmpfs none /proc && exec pack-chunks unpack parts -C no-proc --group-shared'
  [ "$(stat -c %a no-proc/tree/noise)" = 660 ] || fail "without /proc the mode is $(stat -c %a no-proc/tree/noise)"
  break
done
[ -e no-proc ] || echo "SKIPPED: without /proc (mounting is not allowed, not even in a namespace of its own, or an emulator needs it)"
mkdir planted && chmod 777 planted && (cd planted && stranger mkdir -m 770 .set.unpack)
expect 1 pack-chunks unpack parts -C planted --group-shared; says 'planted/\.set\.unpack: belongs to user 4203'
finish
