# One damage after the other, of every kind of file: found, named, exit status 3; and what is advised, done as printed
# (with CHECKPOINT and SOURCE filled in), ends in a store that is what it was.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is needed to do the damage"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint
expect 0 build-planescache "$CK" -o good --store good/s --tiers base,fp4,deltaq --ckpt-id prod -q
expect 0 make-trace t.npy --ticks 50 --layers 2 --experts 3 --per-layer 2 -q && expect 0 size-tiers t.npy --write-heat good/s -q
expect 0 pack-chunks pack "$CK" --name set --out good/parts --part-size 40000 --frame-size 8K
expect 0 verify-ckpt-id verify good
cat >damage.py <<'END'
import os, re, sys
path, what, *more = sys.argv[1:]
if what == "missing": os.remove(path); sys.exit()
if what == "empty": open(path, "wb").close(); sys.exit()
if what == "owner": os.chown(path, 12345, -1); sys.exit()
data = bytearray(open(path, "rb").read())
if what == "long": data += b"x"
elif what == "newline": data += b"\n"
elif what == "short": data = data[:-1]
elif what == "half": data = data[:len(data) // 2]
elif what == "byte": data[int(eval(more[0], {"n": len(data)}))] ^= 0x15
elif what == "field":  # one character of a value in JSON
    at = re.search(rb'"%s": *[\["{]*' % more[0].encode(), data).end()
    if data[at:at + 5] == b"false": data[at:at + 5] = b"true "
    elif chr(data[at]).isdigit(): data[at] = ord("0") + (data[at] - ord("0") + 1) % 10
    else: data[at] = data[at] + 1 if chr(data[at + 0]) not in "zZ9" else ord("b")
stat = os.stat(path); open(path, "wb").write(data)
END
cases=0
# damage FILE-GLOB WHAT [MORE]: does it to a copy of the store and lets verify and its advice deal with it.
damage() {
  local pattern=$1 file what; shift
  what="$pattern $*"
  rm -rf d; cp -a good d
  file=$(echo $pattern); [ -e "$file" ] || { fail "no $pattern"; return; }
  python3 damage.py "$file" "$@" || { fail "cannot do: $what"; return; }
  deal_with "$what" "${file##*/}"
}
# deal_with WHAT NAME: the store in d is damaged in the file of that name.
deal_with() {
  cases=$((cases + 1))
  expect 3 verify-ckpt-id verify d || { fail "  $1"; return; }
  grep -qF -- "$2" "$WORK/out" || fail "$1: $2 is not named: $(head -5 "$WORK/out")"
  sed -n 's/^  to do: //p' "$WORK/out" | sed "s|CHECKPOINT|$CK|; s|SOURCE|$CK|; s|--ckpt-id ID|--ckpt-id prod|" >advice
  [ -s advice ] || { fail "$1: no advice"; return; }
  (cd / && bash -e "$WORK/advice") >"$WORK/done" 2>&1 || { fail "$1: the advice fails: $(cat advice)"; tail -8 "$WORK/done"; return; }
  expect 0 verify-ckpt-id verify d || { fail "  $1, after: $(cat advice)"; head -8 "$WORK/out"; return; }
  case $1 in *d/parts/manifest*) return ;; esac  # what the parts were packed with is lost with it
  find d -name '*.moved' -exec rm -r {} +
  diff -r good d >"$WORK/differ" || { fail "$1: not what it was: $(head -3 "$WORK/differ")"; }
}

R='d/v2/*/tp1-rank0'
for field in version quantizer_abi ckpt_id world rank zero_mode fp4_split; do damage "$R/meta.json" field $field; done
for what in missing empty long newline short; do damage "$R/meta.json" $what; done
for field in version kind tool ckpt_id quantizer_abi zero_mode world rank fp4 layers experts hidden intermediate source family path size xxh3 blocks digest; do
  damage "$R/manifest.json" field $field
done
for what in missing empty long newline half; do damage "$R/manifest.json" $what; done
for at in 0 n/2 n-1; do damage "$R/layer1.fp13.bin" byte $at; damage "$R/layer0.sc2.bin" byte $at; done
for what in missing empty long short; do damage "$R/layer0.planes13.bin" $what; done
for field in E ckpt_id layers n_layers quantizer_abi slot_bytes stride tag version zero_mode; do damage 'd/s/base.*of1.json' field $field; done
for what in missing empty long short; do damage 'd/s/base.*of1.json' $what; done
for at in 0 n/3+5 n/3*2-4096*2 n-1; do damage 'd/s/base.*.pack' byte $at; done
for what in missing empty long half; do damage 'd/s/fp4.*.pack' $what; done
for field in ckpt_id tier source family layers digest; do damage 'd/s/fp4.*.manifest.json' field $field; done
for what in missing empty long; do damage 'd/s/fp4.*.manifest.json' $what; done
for at in 0 n/2 n-1; do damage d/parts/set.tar.zst.part.001 byte $at; done
for what in missing empty long short; do damage d/parts/set.tar.zst.part.000 $what; done
# Slots with quintal planes are told from nibble ones by their size alone.
for field in slot_bytes stride tag; do damage 'd/s/delta.*of1.json' field $field; done
for at in 0 n/2 n-1; do damage 'd/s/delta.*.pack' byte $at; done
for field in tier digest; do damage 'd/s/delta.*.pack.manifest.json' field $field; done
for what in missing short; do damage 'd/s/delta.*.pack' $what; damage 'd/s/delta.*of1.json' $what; done
# Chunks: what their manifest and the list of sums say.
for field in version kind tool name level frame_size part_content part_size stream_size offset size xxh3 path mode digest; do
  damage d/parts/manifest.set.json field $field
done
for what in empty long half; do damage d/parts/manifest.set.json $what; done
for what in empty long short; do damage d/parts/SHA256SUMS.set $what; done
damage d/parts/SHA256SUMS.set byte 3
if [ "$(id -u)" = 0 ]; then
  for file in "$R/layer0.fp2.bin" "$R/meta.json" 'd/s/base.*.pack'; do damage "$file" owner; done
else
  echo "SKIPPED: files of another owner, which only root can make"
fi

# Several at once, and names that were changed.
rm -rf d; cp -a good d; rm d/v2/*/*/meta.json d/v2/*/*/layer0.fp2.bin d/s/base.*of1.json
python3 damage.py "$(echo d/s/base.*.pack)" byte n/3+5; deal_with "several at once" layer0.fp2.bin
rm -rf d; cp -a good d; key=$(basename d/v2/*); mv d/v2/$key d/v2/01234567890123456789; deal_with "a renamed key" $key
rm -rf d; cp -a good d
for file in d/s/base.*; do mv "$file" "$(echo "$file" | sed 's/v2\.[0-9a-f]*/v2.01234567890123456789/')"; done
deal_with "a renamed pack" base.v2

# A copy under another name, beside what it is a copy of.
rm -rf d; cp -a good d; cp -a $R $(dirname $R)/tp1-rank1; deal_with "a copied rank" tp1-rank1
rm -rf d; cp -a good d
for file in d/s/base.*; do cp -a "$file" "$(echo "$file" | sed 's/v2\.[0-9a-f]*/v2.01234567890123456789/')"; done
deal_with "a copied pack" base.v2.01234567890123456789

# Something else where a file should be: a directory, a link to a file with the right and with the wrong content, and to nothing.
for file in "$R/layer0.fp2.bin" "$R/meta.json" 'd/s/base.*.pack' 'd/s/base.*of1.json' d/parts/set.tar.zst.part.001; do
  rm -rf elsewhere d; cp -a good d; name=$(echo $file)
  rm "$name"; mkdir "$name"; deal_with "a directory for $file" "${name##*/}"
  rm -rf d; cp -a good d; mv "$name" elsewhere; ln -s "$PWD/elsewhere" "$name"; deal_with "a link for $file" "${name##*/}"
  rm -rf d; cp -a good d; printf x >>elsewhere; rm "$name"; ln -s "$PWD/elsewhere" "$name"
  deal_with "a link to something else for $file" "${name##*/}"
  rm -rf d; cp -a good d; rm "$name"; ln -s "$PWD/nothing" "$name"; deal_with "a link to nothing for $file" "${name##*/}"
done

# Only building it again helps: neither meta.json nor manifest are left, and that is said.
rm -rf d; cp -a good d; rm d/v2/*/*/m*.json
expect 3 verify-ckpt-id repair d --checkpoint "$CK" && prints 'only a new build under its identity can make it again'
expect 3 verify-ckpt-id repair d && prints 'only a new build under its identity can make it again'
deal_with "neither meta.json nor manifest" manifest.json
rm -rf d; cp -a good d; rm d/s/base.*of1.json d/s/base.*manifest.json; deal_with "neither sidecar nor manifest" base.v2

# What this user may not read is not damaged, and nothing is made again for it.
if [ "$(id -u)" = 0 ] && chmod 755 . "$WORK" && setpriv --reuid=65534 --clear-groups verify-ckpt-id --version >/dev/null 2>&1; then
  rm -rf d; cp -a good d; chmod -R a+rX d; chmod 600 $R/layer0.fp2.bin d/s/base.*of1.json
  expect 3 setpriv --reuid=65534 --clear-groups env XDG_CACHE_HOME=/nonexistent verify-ckpt-id verify d
  prints 'to do: run this as a user who may read all of it'
  grep 'to do: .*repair' "$WORK/out" && fail "a repair is advised of what may not be read"
  expect 0 verify-ckpt-id verify d
else
  echo "SKIPPED: files that may not be read, which takes root and another user"
fi

# A part beyond those of the set, which cat would take for one.
rm -rf d; cp -a good d; cp d/parts/set.tar.zst.part.001 d/parts/set.tar.zst.part.999
expect 3 verify-ckpt-id verify d/parts && prints 'extra +set.tar.zst.part.999: is not in the manifest'
expect 0 verify-ckpt-id verify d/parts --allow-extra
# The list of sums is for sha256sum alone: without it nothing is wrong, and it is said.
rm -rf d; cp -a good d; rm d/parts/SHA256SUMS.set
expect 0 verify-ckpt-id verify d && prints 'note: SHA256SUMS.set is missing'
# The same of a set of chunks without its manifest.
rm -rf d; cp -a good d; rm d/parts/manifest.set.json
expect 3 verify-ckpt-id verify d && prints 'to do: pack-chunks pack SOURCE --name set --out .* --force'

[ $cases -ge 60 ] || fail "only $cases damages"
echo "$cases damages"
finish
