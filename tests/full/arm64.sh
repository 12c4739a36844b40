#!/usr/bin/env bash
# 64-bit Arm: cross-compiles everything and runs the unit, golden, fault and command-line tests under qemu. Takes an hour.
. "$(dirname "$0")/../cli/common.sh"
cd "$SOURCE" || exit 1
[ "$(uname -m)" = x86_64 ] || skip "this is no x86-64 machine: the tests run as they are"
scripts/install-deps.sh arm64 || skip "the cross compiler or the libraries for arm64 cannot be installed here"
cmake --preset arm64 && cmake --build --preset arm64 || { fail "it does not build"; finish; }

# What measures memory and time measures the emulator; packages are made of this machine's programs.
not_here='memory|memory_commands|limits|junk|install|package|release|quickstart|neon'
echo "SKIPPED: cli.$not_here: they say nothing of another processor"
# All faults take hours under the emulator; the first of each series and one of seven are tried.
FAULT_STRIDE=7 ctest --preset arm64 -j "$(nproc)" --no-tests=error -E "^cli[.]($not_here)\$" || fail "tests of the arm64 build failed"

# Hashes by the processor's own instructions, as qemu meets them: SHA-256 by its extension, XXH3 by NEON.
BIN=build/arm64/emulated
noise 4000000 >"$WORK/noise"
for hash in sha256:sha256h xxh3:umlal; do
  QEMU_LOG=in_asm QEMU_LOG_FILENAME=$WORK/code \
    expect 0 "$BIN/verify-ckpt-id" manifest "$WORK/noise" --out "$WORK/${hash%:*}.json" --hash "${hash%:*}"
  grep -q "${hash#*:}" "$WORK/code" || fail "--hash ${hash%:*} runs without ${hash#*:}"
done
finish
