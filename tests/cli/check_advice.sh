# What check advises where the engine would not boot, done as printed: then it would.
. "$(dirname "$0")/common.sh"
cd "$WORK" || exit 1
CK=$GOLDEN/ds4-mini/checkpoint
expect 0 build-planescache "$CK" -o good/c --store good/s --tiers base,delta,fp4 --ckpt-id "it's prod" -q
expect 0 build-planescache "$CK" -o good/c2 --store good/s2 --tiers base --world 2 --ckpt-id prod2 -q
fresh() { rm -rf d; cp -a good d; }
# boots CHECK-ARGUMENT...: not now, and after what is advised.
boots() {
  expect 3 verify-ckpt-id check "$@" || return
  sed -n 's/^to do: //p' "$WORK/out" | sed "s|CHECKPOINT|$CK|" >advice
  [ -s advice ] || { fail "no advice: $*"; return; }
  expect 0 bash -e advice || { cat advice; return; }
  expect 0 verify-ckpt-id check "$@" || { fail "  after: $(cat advice)"; tail -5 "$WORK/out"; }
  fresh
}
fresh
C='d/c/v2/*/tp1-rank0'
# Other files are wanted than those that are there.
boots --planescache d/c --world 2
boots --planescache d/c --world 2 --rank 1; boots --planescache d/c --zero-mode sign
boots --planescache d/c --fp4 quintal
boots --planescache d/c --store d/s --tiers base,fp4q
boots --planescache d/c --store d/s --world 2 --tiers base,delta
boots --planescache d/c --store d/s --for resident-split
boots --store d/s --tiers deltaq --checkpoint "$CK" && grep -q CHECKPOINT advice && fail "the checkpoint is known"
rm -r d/c2/v2/*/tp2-rank1; boots --planescache d/c2
rm d/s2/*.rank0of2.*; boots --planescache d/c2 --store d/s2 --tiers base; grep -q -- '--rank 0$' advice || fail "both ranks"
# What is there is damaged.
rm $C/layer1.sc2.bin; boots --planescache d/c
rm $C/layer1.*; boots --planescache d/c --checkpoint "$CK"
truncate -s 5 $C/layer0.fp2.bin $C/layer1.sc2.bin; truncate -s 100 d/s/base*.pack; boots --planescache d/c --store d/s
rm d/s/base*.pack; boots --planescache d/c --store d/s
echo '{' >"$(echo d/s/base*of1.json)"; boots --planescache d/c --store d/s
sed -i 's/"layers": \[0, 1\]/"layers": [0]/' d/s/base*of1.json; boots --store d/s
python3 - "$(echo d/c/v2/*/tp1-rank0/meta.json)" <<'END' || exit 1
import json, sys
meta = json.load(open(sys.argv[1])); meta["world"] = 3; json.dump(meta, open(sys.argv[1], "w"))
END
boots --planescache d/c --ckpt-id "it's prod" --config "$CK"
# Drafters: a cache that was built without them, and one with a damaged layer besides.
CK=$GOLDEN/ds4-dspark-mini/checkpoint
expect 0 build-planescache "$CK" -o dspark/c --store dspark/s --for resident --ckpt-id prod -q
cp -a dspark d; boots --planescache d/dspark/c --store d/dspark/s --drafts 3
cp -a dspark d; rm d/dspark/c/v2/*/*/layer0.sc2.bin; boots --planescache d/dspark/c --drafts 2
expect 0 build-planescache "$CK" -o dspark/c --ckpt-id prod --drafts 3 -q
cp -a dspark d; rm d/dspark/c/v2/*/*/layer4.*; truncate -s 5 d/dspark/c/v2/*/*/layer3.sc2.bin; boots --planescache d/dspark/c --drafts 3
grep -q '^verify-ckpt-id repair' advice && grep -q '^build-planescache' advice || fail "a missing and a damaged drafter: $(cat advice)"
CK=$GOLDEN/ds4-mini/checkpoint
# A configuration that counts other layers than files are made for.
for n in 1 99; do
  expect 3 verify-ckpt-id check --planescache d/c --store d/s --env VLLM_MOE_W2=1 --env "VLLM_MOE_W2_CKPT_ID=it's prod" --env VLLM_MOE_W2_NUM_LAYERS=$n
  [ "$(grep '^to do' "$WORK/out")" = 'to do: remove VLLM_MOE_W2_NUM_LAYERS from the configuration: files are made for all 2 layers' ] || fail "NUM_LAYERS: $(cat "$WORK/out")"
done
# The same as JSON; nothing is advised where another identity is meant.
expect 3 verify-ckpt-id check --planescache d/c --world 2 --json
python3 -c 'import json, sys; d = json.load(sys.stdin); assert d["to_do"][0].startswith("build-planescache CHECKPOINT --out "), d' <"$WORK/out" || fail "--json"
expect 3 verify-ckpt-id check --planescache d/c --ckpt-id other && ! grep '^to do' "$WORK/out" || fail "another identity is to be built"
# What is left of a cache names the way.
rm $C/meta.json; verify-ckpt-id check --planescache d/c >out 2>err; [ $? != 0 ] || fail "boots without meta.json"
grep -q 'meta.json is missing; verify-ckpt-id verify .* tells what to do' err || fail "no advice: $(cat err)"
expect 0 verify-ckpt-id list --planescache d/c && says 'what to do: verify-ckpt-id verify d/c'
expect 3 verify-ckpt-id verify d/c && sed -n 's/^  to do: //p' "$WORK/out" >advice && expect 0 bash -e advice && expect 0 verify-ckpt-id check --planescache d/c
expect 0 verify-ckpt-id list --planescache d/c && ! grep 'what to do' "$WORK/err" || fail "advice without a reason"
# What this user may not open is not damaged: its owner is told the command, another user whose it is.
as() { setpriv --reuid=65534 --regid=65534 --clear-groups env "XDG_CACHE_HOME=$WORK/none" "$@"; }
if [ "$(id -u)" = 0 ] && chmod 755 "$WORK" && as verify-ckpt-id --version >/dev/null 2>&1; then
  fresh; chown -R 65534 d; chmod 444 d/s/*; chmod 000 $C/layer0.sc2.bin d/s/base*.json
  boots_as() { as verify-ckpt-id check --planescache d/c --store d/s --tiers base,delta,fp4 >out 2>err; }
  boots_as && fail "boots without permission"; sed -n 's/^to do: //p' out >advice
  expect 3 as verify-ckpt-id repair d/s --checkpoint "$CK"; prints 'left +run this as a user who may read the manifest'
  ! grep -q build-fp4-packs "$WORK/out" || fail "what cannot be read is to be built again"
  expect 0 as bash -e advice || cat advice
  boots_as || { fail "after: $(cat advice)"; tail -5 out; }
  chown 0 d/s/fp4*.lock d/s/fp4*.pack $C/*; chmod 600 $C/*; boots_as && fail "boots with the files of another"
  grep -q "^to do: let the engine's user read and write .*fp4.*\.lock (user root (0), mode 0[0-9]*)" out || fail "whose: $(cat out)"
  grep -q "^to do: let the engine's user read .*meta.json" out || fail "whose: $(cat out)"
  grep -q 'to do: .*repair' out && fail "repair cannot give permission"
  if unshare -m true 2>/dev/null; then
    fresh; unshare -m sh -c 'mount --bind d d && mount -o remount,bind,ro d && verify-ckpt-id check --store d/s' >out 2>err
    grep -q '^to do: mount .*/d/s so that it can be written to' out || fail "read-only: $(cat out err)"
    fresh; chown -R 65534 d; chmod 000 $C/layer0.sc2.bin
    as unshare -rm sh -c 'mount --bind d d && mount -o remount,bind,ro d && verify-ckpt-id check --planescache d/c' >out 2>err
    grep -q "^to do: let the engine's user read .*layer0.sc2.bin" out || fail "read-only cache: $(cat out err)"
  else
    echo "SKIPPED: nothing can be mounted here"
  fi
else
  echo "SKIPPED: files of another user (only root can act as another user, or others may not run the programs from here)"
fi
finish
