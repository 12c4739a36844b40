#!/usr/bin/env bash
# Instructions per element of the kernels, of AVX2 beside NEON: what qemu executes for one more run of each over the same
# slice, one instruction to a translated block. Says nothing of time. Needs install-deps.sh arm64. Prints a table of
# docs/PERFORMANCE.md.
set -euo pipefail
cd "$(dirname "$0")/../../.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

sources=(tests/bench/instructions/kernel.cc lib/base/{error,text}.cc)
for source in lib/quant/*.cc; do case $source in *backend.cc) ;; *) sources+=("$source") ;; esac done
# build COMPILER
build() {
  "$1" -std=c++20 -O3 -ffp-contract=off -DFMT_HEADER_ONLY -Ilib -Itests -static "${sources[@]}" -o "$work/$1"
}
# executed EMULATOR COMPILER ISA KERNEL TIMES
executed() { "$1" -cpu max -singlestep -d nochain,exec -D /dev/stdout "$work/$2" "$3" "$4" "$5" | grep -c '^Trace'; }
# each EMULATOR COMPILER ISA KERNEL ELEMENTS
each() {
  awk -v more="$(executed "$1" "$2" "$3" "$4" 3)" -v less="$(executed "$1" "$2" "$3" "$4" 2)" -v n="$5" \
    'BEGIN { printf "%.2f", (more - less) / n }'
}

build g++
build aarch64-linux-gnu-g++
echo "| instructions per element | AVX2 | NEON |"
echo "|---|---|---|"
"$work/g++" | while read -r elements kernel; do
  printf '| %s | %s | %s |\n' "$kernel" "$(each qemu-x86_64-static g++ avx2 "$kernel" "$elements")" \
    "$(each qemu-aarch64-static aarch64-linux-gnu-g++ neon "$kernel" "$elements")"
done
