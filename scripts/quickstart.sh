#!/usr/bin/env bash
# From a fresh clone to a verified planes cache: installs missing packages, builds the programs, makes a small stand-in for
# DeepSeek-V4 in build/demo, converts and verifies it. It can be run again and continues where it stopped. If packages are
# missing and cannot be installed, it uses the portable programs, which need none: those on the PATH, or in
# dist/planesmith-VERSION-linux-ARCH.tar.xz.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
[ $# = 0 ] || wrong "takes no arguments"
step() { printf '\n\033[1m%s\033[0m\n' "$*"; }
size_of() { du -sh --apparent-size "$1" | cut -f1; }

# Uses the portable programs instead of a build.
use_portable() {
  local machine archive
  machine=$(uname -m)
  if ! command -v build-planescache >/dev/null; then
    archive=$(compgen -G "dist/planesmith-*-linux-$machine.tar.xz" | sort -V | tail -n 1 || true)
    if [ -z "$archive" ]; then
      say "
The portable programs need no packages and no root. Get planesmith-VERSION-linux-$machine.tar.xz or the wheel from where this
source comes from, then either of
    mkdir -p dist && mv planesmith-VERSION-linux-$machine.tar.xz dist/ && ./scripts/quickstart.sh
    python3 -m venv build/venv && . build/venv/bin/activate
    pip install planesmith-VERSION-py3-none-manylinux_2_17_$machine.whl && ./scripts/quickstart.sh"
      exit 1
    fi
    need xz
    rm -rf build/portable-programs && mkdir -p build/portable-programs
    tar -xf "$archive" --strip-components=1 -C build/portable-programs
    PATH=$PWD/build/portable-programs/bin:$PATH
  fi
  programs=$(dirname "$(command -v build-planescache)")
  checkpoint=tests/golden/ds4-mini/checkpoint
  echo "packages are missing; continuing with the portable programs in $programs"
}

cache=build/demo/planescache
mkdir -p build/demo
step "1/5  Packages"
if ./scripts/install-deps.sh; then
  programs=$PWD/build/release/bin checkpoint=build/demo/DeepSeek-V4-demo
  echo "all installed"

  step "2/5  Building the programs (the first time takes about ten minutes on two cores)"
  cmake --preset release >/dev/null
  cmake --build --preset release --target build-planescache build-fp4-packs verify-ckpt-id pack-chunks repack-experts \
    size-tiers make-checkpoint

  step "3/5  A demo checkpoint: DeepSeek-V4's names and number formats, made-up weights with realistic statistics"
  if [ ! -e "$checkpoint/config.json" ]; then
    rm -rf "$checkpoint"  # left by an interrupted run
    build/release/bin/make-checkpoint -o "$checkpoint" --family mxfp4 --layers 4 --experts 16 --hidden 2048 --intermediate 1024 \
      --shards 6
  fi
else
  use_portable
fi
echo "$checkpoint: $(size_of $checkpoint)"

step "4/5  Converting it"
build-planescache "$checkpoint" --out "$cache" | tee build/demo/build.txt

step "5/5  Proving it right"
# Would the engine boot from it? Does converting again give the same bytes? Is every byte what the manifest says?
verify-ckpt-id check --planescache "$cache" --checkpoint "$checkpoint" --sample 32
for manifest in "$cache"/v2/*/*/manifest.json; do verify-ckpt-id verify "$manifest"; done

step "Done"
cat <<SUMMARY
$checkpoint  $(size_of $checkpoint)
    what a model hub gives you: a mixture-of-experts model whose experts are 4-bit numbers
$cache  $(size_of $cache)
    what the engine boots from: every expert as a 2-bit plane (what is computed with), its scales, and a 4-bit
    plane (what the engine refines with), in the order the GPU reads them
Every byte of the cache is what its manifest says; the engine would find every layer.

With a real model:
    export PATH=$(printf %q "$programs"):\$PATH
    build-planescache /path/to/checkpoint --out /path/to/cache --dry-run     # what it would do
    ./scripts/regenerate.sh /path/to/checkpoint /path/to/output              # all of it, checked
SUMMARY
