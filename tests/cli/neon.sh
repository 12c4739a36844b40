# The kernels of 64-bit Arm against the reference, under qemu: wherever the cross compiler is. Everything else of that
# processor is in tests/full/arm64.sh.
. "$SOURCE/tests/cli/common.sh"
[ "$(uname -m)" = x86_64 ] || skip "this is no x86-64 machine: the kernels' tests run as they are"
compiler=aarch64-linux-gnu-g++
command -v $compiler >"$WORK/out" || skip "no cross compiler (g++-aarch64-linux-gnu) is installed"
qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || skip "no emulator (qemu-user-static) is installed"
if command -v ccache >"$WORK/out"; then compiler="ccache $compiler"; fi

cd "$SOURCE" || exit 1
for source in lib/base/{error,text}.cc lib/quant/*.cc tests/unit/{main,kernels_test,quantize_kernels_test}.cc; do
  case $source in *backend.cc | *quantizer.cc) continue ;; esac  # they depend on more than the kernels
  expect 0 $compiler -std=c++20 -O2 -Wall -Wextra -Wshadow -ffp-contract=off -DFMT_HEADER_ONLY \
    -DSOURCE_DIR="\"$PWD\"" -Ilib -Itests -c "$source" -o "$WORK/$(basename "$source").o" || sed 's/^/    /' "$WORK/err"
done
expect 0 aarch64-linux-gnu-g++ -static "$WORK"/*.o -o "$WORK/kernels"
expect 0 "$qemu" "$WORK/kernels" || cat "$WORK/out"
prints '0 failed \| 0 skipped$'

# The differential fuzz target, on inputs that are drawn: there is no fuzzer for this processor here.
rm "$WORK"/*_test.cc.o "$WORK/main.cc.o"
cat >"$WORK/draws.cc" <<'CC'
#include <cstddef>
#include <cstdint>
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t*, std::size_t);
int main() {
  for (std::uint32_t i = 0; i < 500; ++i) {
    const std::uint8_t input[] = {static_cast<std::uint8_t>(i), static_cast<std::uint8_t>(i >> 8)};
    LLVMFuzzerTestOneInput(input, sizeof input);
  }
}
CC
expect 0 $compiler -std=c++20 -O2 -ffp-contract=off -DFMT_HEADER_ONLY -Ilib -Itests -static \
  tests/fuzz/kernels_fuzz.cc "$WORK"/*.o "$WORK/draws.cc" -o "$WORK/fuzz"
expect 0 "$qemu" "$WORK/fuzz"
finish
