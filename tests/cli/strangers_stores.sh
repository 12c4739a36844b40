# Root builds into, rekeys and prunes stores that another user may write to. Files that this user put there before or puts
# there meanwhile have no effect: nothing outside is changed, and none of them is used as ours.
[ ! -d /dev/shm ] || export TMPDIR=/dev/shm
source "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || skip "only root can act as another user"
as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
as true 2>/dev/null || skip "setpriv cannot act as another user here"
mkdir "$WORK/here"; chmod 755 "$WORK" "$WORK/here"; cd "$WORK/here" || exit 1
umask 022
CK=$GOLDEN/ds4-mini/checkpoint RIGHT=$GOLDEN/ds4-mini/expected/tp1
mkdir victim victim/deep; echo precious >victim/file; echo precious >victim/deep/file; : >victim/empty
chmod -R go-w victim
state() { (find victim -printf '%p %m %u %s %l\n' | sort; find victim -type f -exec cat {} +); }
state >before
untouched() { state | cmp -s - before || fail "$1: the victim was changed"; }
shared() { mkdir -p "$1"; chmod 777 "$1"; }
VICTIM=$PWD/victim

# --- planted links in place of temporary directories ---
cp -a "$RIGHT" t; chmod -R u+w t
expect 0 verify-ckpt-id rekey --planescache t/planescache --from golden-ds4-mini --to new --dry-run
new=$(sed -n 's/^would rename .* -> //p' "$WORK/out" | head -1) old=$(ls -d t/planescache/v2/*/tp1-rank0)
find t -type d -exec chmod 777 {} +
as mkdir -p "$(dirname "$new")"; as ln -s "$VICTIM" "$new.tmp"; as ln -s "$VICTIM" "$old.tmp"
expect 0 verify-ckpt-id rekey --planescache t/planescache --from golden-ds4-mini --to new
untouched "rekey"
expect 0 verify-ckpt-id check --planescache t/planescache --config "$CK" --ckpt-id new
mkdir -p aside; mv "$new" aside/; chmod 777 "$(dirname "$new")"; as ln -s "$VICTIM" "$new"
verify-ckpt-id prune --planescache t/planescache --keep golden-ds4-mini --force >/dev/null 2>&1
verify-ckpt-id rekey --planescache t/planescache --from new --to x >/dev/null 2>&1
untouched "prune of a link"
rm -rf t aside

# --- a store ---
stem=$(basename "$RIGHT"/store/base.*.pack .pack)
pack="build-fp4-packs $CK -o s --tiers base --ckpt-id golden-ds4-mini"
for planted in "$stem.pack" "$stem.lock" "$stem.json" "$stem.json.tmp" ".$stem" ".$stem.lock" ".$stem.layer0.lock" "$stem.pack.manifest.json"; do
  for target in "$VICTIM/file" "$VICTIM/empty" "$VICTIM/new" "$VICTIM"; do
    rm -rf s; shared s; as ln -s "$target" "s/$planted"
    $pack >/dev/null 2>err; status=$?
    untouched "$planted -> $target"
    [ $status = 1 ] || [ ! -L "s/$planted" ] || fail "$planted -> $target: exit $status, and the link is still there"
    [ $status = 0 ] || grep -q "$planted" err || fail "$planted -> $target: $(cat err)"
  done
done
rm -rf s

# --- reading: the target of another user's link does not belong to a store, and a note says so; own links are followed ---
mkdir other; chmod 755 other; cp -a "$RIGHT/planescache" "$RIGHT/store" other/
key=$(cd other/planescache && ls -d v2/*) read=0
for planted in "planescache/v2" "planescache/$key" "planescache/$key/tp1-rank0" "planescache/$key/tp1-rank0/meta.json" \
  "planescache/$key/tp1-rank0/layer0.planes13.bin" "store/$stem.pack" "store/$stem.json"; do
  for owner in 65534 0; do
    rm -rf t; cp -a "$RIGHT" t; chmod -R u+w t; find t -type d -exec chmod 777 {} +
    rm -rf "t/$planted"; ln -s "$PWD/other/$planted" "t/$planted"; chown -h $owner "t/$planted"
    here="--planescache t/planescache --store t/store"
    status=$([ $owner = 0 ] && echo 0 || echo 3)
    expect $status verify-ckpt-id check $here --ckpt-id golden-ds4-mini --config "$CK" --tiers base
    cat "$WORK/out" "$WORK/err" >said; expect 0 verify-ckpt-id list $here; cat "$WORK/out" "$WORK/err" >>said
    if [ $owner = 0 ]; then
      ! grep -q 'symbolic link' said || fail "$planted: our own link is blamed"
    else
      [ "$(grep -c 'is a symbolic link of user .*65534.*not followed' said)" -ge 2 ] || fail "$planted: not said: $(cat said)"
    fi
    case $planted in planescache*)
      expect $((owner != 0)) build-fp4-packs --from-planescache t/planescache -o t/new --tiers base --config "$CK"
      [ $owner = 0 ] || absent "$(echo t/new/*.json)" ;;
    esac
    read=$((read + 1))
  done
done
[ $read = 14 ] || fail "not all links were tried"
rm -rf t; cp -a "$RIGHT" t; chmod -R u+w t; chmod 777 "t/planescache/$key"
rm -rf "t/planescache/$key/tp1-rank0"; as ln -s "$PWD/other/planescache/$key/tp1-rank0" "t/planescache/$key/tp1-rank0"
expect 2 verify-ckpt-id prune --planescache t/planescache --keep golden-ds4-mini --force; says 'is not there'
rm -rf t other

# --- single files as output: a link or pipe that another user put there is not what a person named ---
shared o
as ln -s "$VICTIM/file" o/m.json
output="repack-experts build $CK o/r --levels 4 --granularity tensor -q --stats-out o/m.json"
expect 0 $output; untouched "a link in the place of an output"
[ ! -L o/m.json ] || fail "an output is written through a link"
rm -rf o; shared o; as mkfifo o/m.json
expect 1 timeout 60 $output; says 'is a pipe that belongs to user .*65534'
rm -rf o; mkdir o; ln -s "$PWD/o/real.json" o/m.json; : >o/real.json
expect 0 $output
[ -L o/m.json ] && [ -s o/real.json ] || fail "a link of one's own is not followed"
rm -rf o

# --- a planes cache: what they made before is not ours ---
cache="build-planescache $CK -o c --ckpt-id golden-ds4-mini"
rank=c/$(cd "$RIGHT/planescache" && ls -d v2/*/tp1-rank0)
plant() { rm -rf c; mkdir -p "$rank"; chmod 777 "$rank"; }
plant
for name in meta.json.tmp manifest.json.tmp layer0.planes13.bin.tmp layer1.sc2.bin; do
  as sh -c "echo theirs >'$rank/$name'; chmod 666 '$rank/$name'"
done
expect 0 $cache
diff -r -x manifest.json "$RIGHT/planescache" c >/dev/null || fail "planted files: not what was to be built"
[ -z "$(find "$rank" -type f \( -not -user 0 -o -perm /022 \))" ] || fail "a file in root's cache is theirs"
plant; as ln -s "$VICTIM/file" "$rank/meta.json"; as ln -s "$VICTIM/file" "$rank/layer0.fp2.bin"
as ln -s "$VICTIM/new" "$rank/layer0.fp2.bin.tmp"; as ln -s "$VICTIM/new" "$rank/manifest.json.tmp"
expect 0 $cache; untouched "links in a cache"
[ -z "$(find "$rank" -type l)" ] || fail "links are left in the cache"
for kind in link directory; do
  plant
  if [ $kind = link ]; then as ln -s "$VICTIM" "$rank/.planesmith"; else as mkdir -m 777 "$rank/.planesmith"; fi
  expect 1 $cache; untouched "records: $kind"
  [ $kind = link ] && says '\.planesmith: is a symbolic link' || says '\.planesmith: belongs to user .*65534.*, mode 0777'
  [ $kind = link ] || [ "$(stat -c %a "$rank/.planesmith")" = 777 ] || fail "their directory was changed"
done
plant; as sh -c "umask 000; : >'$rank/.planesmith.lock'"
expect 1 $cache; says '\.planesmith\.lock: has the name of a lock, but belongs to user .*65534'
rm -rf c; shared c; as ln -s "$VICTIM" c/v2
expect 1 $cache; says 'c/v2: is a symbolic link'; untouched "a link in the path"
rm -rf c

# --- locks: other users can hold them only where they may write, and then the wait names them ---
mkdir c
expect 0 $pack; lock=s/$stem.lock
[ "$(stat -c %a "$lock")" = 600 ] || fail "a lock that others can open: $(stat -c %a "$lock")"
chmod 644 "$lock"
(exec setpriv --reuid=65534 --clear-groups flock -o "$lock" sleep 20) & holder=$!
sleep 0.5
timeout 30 $pack --force >/dev/null 2>err & waiting=$!
for _ in $(seq 100); do grep -q '^waiting for' err && break; sleep 0.1; done
grep -q "waiting for s/$stem.lock, held by process $holder of user .*65534" err || fail "the wait does not say for whom: $(cat err)"
kill "$holder"; wait "$holder" 2>/dev/null
wait "$waiting" || fail "the build does not go on when the lock is free"
rm -rf c s

# --- racers: an intermediate directory and final names, exchanged for links as fast as possible ---
shared c
cat >race.sh <<'END'
while :; do
  for name in "$1"/v2/*/tp1-rank0/.planesmith "$1"/v2/*/tp1-rank0/layer0.planes13.bin.tmp "$1"/v2/*/tp1-rank0/meta.json.tmp; do
    mv "$name" "$name.aside" 2>/dev/null && ln -s "$2" "$name" 2>/dev/null
    ln -sf "$2" "$name" 2>/dev/null
  done
done
END
(exec setpriv --reuid=65534 --clear-groups bash race.sh c "$VICTIM" 2>/dev/null) & racer=$!
end=$((SECONDS + ${RACE_SECONDS:-2}))
while [ $SECONDS -lt $end ]; do
  rm -rf c/v2 2>/dev/null; mkdir -p "$rank"; chmod 777 "$rank"
  $cache -q >/dev/null 2>&1
done
kill "$racer"; wait "$racer" 2>/dev/null
untouched "a race"
rm -rf c

# --- a group that shares an output: two of its members, a layer each ---
member() { local user=$1; shift; setpriv --reuid="$user" --regid=4242 --clear-groups env XDG_CACHE_HOME=/nonexistent "$@"; }
if member 4201 build-planescache --version >/dev/null 2>&1; then
  cp -r "$CK" ck; chmod -R a+rX ck
  shared_build() { member "$1" build-planescache ck -o g/planescache --store g/store --tiers base,delta --ckpt-id golden-ds4-mini "${@:2}"; }
  mkdir g; chgrp 4242 g; chmod 2770 g
  expect 0 shared_build 4201 --layers 0
  expect 1 shared_build 4202 --layers 1; says '(user 4201|Permission denied)'
  rm -rf g; mkdir g; chgrp 4242 g; chmod 2770 g
  expect 0 shared_build 4201 --group-shared --layers 0
  lock=$(ls g/store/base.*.lock)
  [ "$(stat -c %a "$lock")" = 660 ] || fail "a shared lock has mode $(stat -c %a "$lock")"
  expect 0 shared_build 4202 --group-shared --layers 1; prints '^complete  all layers are there'
  diff -r -x '*manifest.json' -x 'fp4.*' "$RIGHT" g >/dev/null || fail "two members: not what was to be built"
  [ -z "$(find g \( -name '.*' -o -name '*.tmp' \) -print)" ] || fail "two members: something is left"
  expect 1 as build-planescache ck -o g/planescache --ckpt-id golden-ds4-mini
  rm -rf g
else
  echo "SKIPPED: a group that shares an output (others may not run the programs from here)"
fi

# --- identities and profiles ---
for bad in $'a\nb' $'a\033[2Jb' $'a\177'; do
  expect 2 build-planescache "$CK" -o c --ckpt-id "$bad"; says 'control characters'
  expect 2 verify-ckpt-id rekey --store s --from a --to "$bad"
  expect 2 verify-ckpt-id check --planescache "$RIGHT/planescache" --config "$CK" --ckpt-id "$bad"
  expect 2 build-planescache "$CK" -o c --served-path "$bad"
  absent c
done
mkdir profiles; echo '{"name": 3' >profiles/bad.json; echo '{"name": 3' >flash.json; echo '{"name": 3' >flash
PLANESMITH_PROFILES=$PWD/profiles expect 0 build-planescache "$CK" -o c --ckpt-id x -n
says 'bad\.json: .*this profile is ignored'
expect 2 verify-ckpt-id check --planescache "$RIGHT/planescache" --profile flash; says '\./flash is the file of that name here'
finish
