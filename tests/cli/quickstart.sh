# scripts/quickstart.sh as on a fresh clone: nothing is built when it begins. Only building is left out: a cmake of the
# test's puts this build's programs where the real one would.
source "$(dirname "$0")/common.sh"
mkdir -p "$WORK/clone" "$WORK/stub"
cp -r "$SOURCE/scripts" "$SOURCE/CMakeLists.txt" "$WORK/clone"
cat >"$WORK/stub/cmake" <<END
#!/bin/sh
[ "\$1" != --build ] || { mkdir -p build/release/bin && cp $BIN/build-planescache $BIN/verify-ckpt-id $BIN/make-checkpoint build/release/bin; }
END
printf '#!/bin/sh\n' >"$WORK/clone/scripts/install-deps.sh"  # the packages are there, or nothing were built
chmod +x "$WORK/stub/cmake" "$WORK/clone/scripts/install-deps.sh"
export PATH=$WORK/stub:/usr/local/bin:/usr/bin:/bin  # without this build's programs
cd "$WORK/clone" || exit 1
expect 0 ./scripts/quickstart.sh
prints 'the engine would find every layer'
# Again: what is there is kept.
expect 0 ./scripts/quickstart.sh
prints 'layers    0 converted, 4 already there'

# Packages are missing and cannot be installed: it says how to continue without them, and does.
printf '#!/bin/sh\necho Packages are missing >&2; exit 1\n' >scripts/install-deps.sh
rm -r build
expect 1 ./scripts/quickstart.sh
says 'portable programs need no packages'
says "planesmith-VERSION-linux-$(uname -m)\.tar\.xz"
name=planesmith-0.0.1-linux-$(uname -m)
mkdir -p "$name/bin" dist tests/golden/ds4-mini
cp -r "$GOLDEN/ds4-mini/checkpoint" tests/golden/ds4-mini/
cp "$BIN/build-planescache" "$BIN/verify-ckpt-id" "$name/bin"
if tar -cJf "dist/$name.tar.xz" "$name" 2>/dev/null; then
  expect 0 ./scripts/quickstart.sh
  prints 'continuing with the portable programs in .*/build/portable-programs/bin'
  prints 'the engine would find every layer'
else
  echo "    the tarball is not tried: xz is not installed"
fi
rm -rf build dist
PATH=$PWD/$name/bin:$PATH expect 0 ./scripts/quickstart.sh
prints "continuing with the portable programs in .*/$name/bin"
finish
