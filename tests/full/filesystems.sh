#!/usr/bin/env bash
# Builds, packs, verifies, rekeys, prunes and unpacks on file systems of each kind that can be mounted here: overlayfs, a
# small tmpfs, vfat, exfat, XFS, Btrfs, a FUSE pass-through and NFS on loopback. On those that keep links, modes and all
# names, the command-line tests of storing run there as well. FILESYSTEMS="xfs btrfs": only these.
. "$(dirname "$0")/../cli/common.sh"
[ "$(id -u)" = 0 ] || skip "only root can mount file systems"
CK=$GOLDEN/ds4-mini/checkpoint
AT=$WORK/mnt RIGHT=$WORK/right
mkdir "$AT" "$RIGHT" "$WORK/src" && make_tree "$WORK/src/tree"
rm -r "$WORK/src/tree/link" "$WORK/src/tree/sub/same"  # vfat has neither kind of link
ran=()
away() {
  cd "$WORK" && until ! mountpoint -q "$AT" || umount "$AT"; do sleep 0.2; done
  [ -z "${device:-}" ] || losetup --detach "$device"
  device=
}
trap 'away; [ -z "${exported:-}" ] || exportfs -u "127.0.0.1:$exported"; [ ! -e "$WORK/loop" ] || umount "$WORK/loop"; rm -rf "$WORK"' EXIT

build() { build-planescache "$CK" -o "$1/c" --store "$1/s" --tiers base,delta,fp4 --ckpt-id "${2:-a}" -T 3; }
expect 0 build "$RIGHT" || finish

# What every file system must be good for. STORE: a directory in it.
core() {
  local kind=$1 before=$failures; shift
  rm -rf here && mkdir here && cd here || return
  cp -r "$CK" ck && chmod -R u+w ck
  expect 0 build . && diff -r "$RIGHT/c" c && diff -r "$RIGHT/s" s || fail "$kind: not what was to be built"
  expect 0 build . && prints '0 converted'
  expect 0 verify-ckpt-id check --planescache c --store s
  expect 0 verify-ckpt-id verify c s
  expect 0 verify-ckpt-id id ck --recompute && expect 0 verify-ckpt-id id ck
  expect 0 build-fp4-packs --from-planescache c -o s2 --tiers base,fp4
  for pack in s2/*.pack; do same "$pack" "s/${pack##*/}"; done
  rm -r s2
  verify-ckpt-id rekey --from a --to b --planescache c --store s >out 2>err ||
    { grep -q -- '--copy' err && expect 0 verify-ckpt-id rekey --from a --to b --planescache c --store s --copy; } ||
    fail "$kind: rekey: $(cat err)"
  expect 0 verify-ckpt-id check --planescache c --store s --ckpt-id b --config ck
  expect 0 verify-ckpt-id verify c s
  expect 0 build . z
  expect 0 verify-ckpt-id prune --keep z --planescache c --store s --force
  expect 0 verify-ckpt-id list --planescache c --store s && prints "'z'.*complete"
  grep -q "'b'" "$WORK/out" && fail "$kind: something of b is left"
  expect 0 pack-chunks pack "$WORK/src/tree" --name set --out parts --part-size 500kB --frame-size 64KiB
  expect 0 pack-chunks verify parts --deep
  expect 0 pack-chunks unpack parts -C out.d
  diff -r "$WORK/src/tree" out.d/tree || fail "$kind: not what was packed"
  expect 0 repack-experts build ck r --levels 4 --granularity tensor-sym --link copy -T 3
  expect 0 repack-experts build ck r --levels 4 --granularity tensor-sym --link copy && prints 'finished before'
  [ -z "$(find c s parts r -name '*.tmp' -o -name '*.lock.held*')" ] || fail "$kind: left: $(find c s parts r -name '*.tmp' -o -name '*.lock.held*')"
  cd ..; rm -rf here
  ran+=("$kind$([ $before = $failures ] || echo ' (FAILED)')")
}
# on KIND COMMAND...: COMMAND mounts it on $AT.
on() {
  local kind=$1; shift
  [ -z "${FILESYSTEMS:-}" ] || [[ " $FILESYSTEMS " == *" $kind "* ]] || return 0
  printf '%s\n' "--- $kind"
  if ! "$@" >"$WORK/log" 2>&1; then away; printf 'SKIPPED: %s (%s)\n' "$kind" "$(grep -v '^$' "$WORK/log" | tail -1)"; return; fi
  cd "$AT" || return
  core "$kind"
  case $kind in
    vfat | exfat | small-tmpfs) ;;
    *) for script in build from_planescache rekey pack_chunks unpack_chunks kill_builds; do
      (cd "$SOURCE" && TMPDIR=$AT bash "tests/cli/$script.sh" >"$WORK/log" 2>&1); status=$?
      [ $status = 0 ] || [ $status = 77 ] || { fail "$kind: $script.sh"; tail -5 "$WORK/log"; }
    done ;;
  esac
  cd "$WORK" || exit 1
  away
}

image() {  # image KIND MKFS...
  local kind=$1; shift
  command -v "$1" >/dev/null || { echo "$1 is not installed"; return 1; }
  rm -f "$WORK/image" && truncate -s 700M "$WORK/image" && "$@" "$WORK/image" || return
  if grep -qw "$kind" /proc/filesystems || modprobe "$kind" 2>/dev/null; then
    mount -o loop "$WORK/image" "$AT"
  elif [ "$kind" = exfat ] && command -v mount.exfat-fuse >/dev/null; then  # for vfat: fusefat loses data
    device=$(losetup --find --show "$WORK/image") && mount.exfat-fuse -o umask=022 "$device" "$AT"
  else
    echo "the kernel has no $kind"
    return 1
  fi
}
overlay() {
  mkdir -p "$WORK/loop" && { mountpoint -q "$WORK/loop" || mount -t tmpfs none "$WORK/loop"; } &&
    mkdir -p "$WORK"/loop/{lower,upper,work} && { [ -e "$WORK/loop/lower/c" ] || build "$WORK/loop/lower"; } &&
    mount -t overlay overlay -o "lowerdir=$WORK/loop/lower,upperdir=$WORK/loop/upper,workdir=$WORK/loop/work" "$AT"
}
# bindfs without what a kernel's file system has: no flock of its own, every call through a process.
pass_through() {
  command -v bindfs >/dev/null || { echo "bindfs is not installed"; return 1; }
  mkdir -p "$WORK/behind" && bindfs "$WORK/behind" "$AT"
}
nfs() {
  command -v exportfs >/dev/null || { echo "nfs-kernel-server is not installed"; return 1; }
  { grep -qw nfsd /proc/filesystems || modprobe nfsd 2>/dev/null; } && { grep -qw nfs4 /proc/filesystems || modprobe nfs 2>/dev/null; } ||
    { echo "the kernel has no NFS server or client"; return 1; }
  { mkdir -p "$WORK/loop" && mount -t tmpfs none "$WORK/loop" && mount -t nfsd nfsd /proc/fs/nfsd; } 2>/dev/null
  exportfs -o rw,no_root_squash,insecure,fsid=77 "127.0.0.1:$WORK/loop" && exported=$WORK/loop && rpc.nfsd 4 &&
    mount -t nfs4 "127.0.0.1:$WORK/loop" "$AT"
}

on overlay overlay
if mountpoint -q "$WORK/loop"; then
  # A cache in the lower layer: directories cannot be renamed there, files cannot be linked between the layers.
  if overlay >"$WORK/log" 2>&1; then
    cd "$AT" || exit 1
    verify-ckpt-id rekey --from a --to b --planescache c --store s >out 2>err || expect 0 verify-ckpt-id rekey --from a --to b --planescache c --store s --copy
    expect 0 verify-ckpt-id check --planescache c --store s --ckpt-id b --config "$CK"
    expect 0 verify-ckpt-id verify c s
    away
  fi
  umount "$WORK/loop"
fi
on small-tmpfs mount -t tmpfs -o size=40M none "$AT"
on vfat image vfat mkfs.vfat
on exfat image exfat mkfs.exfat
on xfs image xfs mkfs.xfs -q
on btrfs image btrfs mkfs.btrfs -q
on bindfs pass_through
on nfs nfs
printf 'ran on: %s\n' "${ran[*]}"
finish
