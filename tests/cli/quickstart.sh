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
finish
