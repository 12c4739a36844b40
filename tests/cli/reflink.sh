# Packs made of shared blocks, on file systems that can share them (loop-mounted), and the plain copy where they cannot.
source "$(dirname "$0")/common.sh"
[ "$(id -u)" = 0 ] || skip "mounting needs root"
mounted=
trap '[ -z "$mounted" ] || umount "$mounted"; rm -rf "$WORK"' EXIT
tested=0
# Sections that are whole blocks: 512 columns and rows give 4 KiB scale planes.
make-checkpoint --family mxfp4 --layers 2 --experts 4 --hidden 512 --intermediate 512 -o "$WORK/ck" -q >"$WORK/log" 2>&1 || fail "no checkpoint: $(cat "$WORK/log")"
for type in xfs btrfs ext4; do
  command -v mkfs.$type >/dev/null || { echo "SKIPPED: $type, no mkfs.$type"; continue; }
  truncate -s 400M "$WORK/$type.img"
  mkfs.$type -q "$WORK/$type.img" || { echo "SKIPPED: $type, mkfs failed"; continue; }
  mkdir "$WORK/$type"
  mount -o loop "$WORK/$type.img" "$WORK/$type" 2>/dev/null || { echo "SKIPPED: $type, this machine does not allow mounting"; continue; }
  mounted=$WORK/$type; tested=$((tested + 1))
  cd "$mounted" || exit 1
  expect 0 build-planescache "$WORK/ck" -o cache --store right --tiers base,delta,fp4,fp4q --ckpt-id x -q
  if [ $type = ext4 ]; then
    expect 1 build-fp4-packs --from-planescache cache -o no --reflink always
    says 'cannot share blocks'
    expect 0 build-fp4-packs --from-planescache cache -o packs --tiers base,delta,fp4,fp4q
    prints '^shared    0 bytes'
  else
    expect 0 build-fp4-packs --from-planescache cache -o packs --tiers base,delta,fp4,fp4q
    prints '^shared    .*MiB .*inherited from the cache.s manifest unread'
    sync; before=$(df --output=used -k . | tail -1)
    expect 0 build-fp4-packs --from-planescache cache -o more --reflink always
    prints '^copied    0 bytes'
    sync; after=$(df --output=used -k . | tail -1)
    [ $((after - before)) -lt 2000 ] || fail "$type: shared packs took $((after - before)) KiB"
    expect 0 build-fp4-packs --from-planescache cache -o checked --recheck
    prints 'read and checked'
    expect 0 build-fp4-packs --from-planescache cache -o never --reflink never
    prints '^shared    0 bytes'
    # Without a manifest there are no digests to inherit.
    cp -a --reflink=always cache bare && rm bare/v2/*/*/manifest.json
    expect 0 build-fp4-packs --from-planescache bare -o unvouched --tiers base,delta,fp4,fp4q --config "$WORK/ck"
    prints '^shared    .*MiB .*, read for their digests; the cache has no manifest, so they could not be checked'
    # Nor does anything tell what the cache was made of.
    rm -rf compared; cp -r right compared
    sed -i -E '/^ "(source|family|digest)": /d' compared/*.manifest.json unvouched/*.manifest.json
    diff -r compared unvouched || fail "$type: packs from a cache without a manifest differ"
  fi
  diff -r right packs || fail "$type: packs from the cache differ"
  cd /; umount "$mounted"; mounted=
done
[ $tested -gt 0 ] || skip "no file system could be mounted"
finish
