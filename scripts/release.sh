#!/usr/bin/env bash
# usage: release.sh [--wheel]
#
# Makes dist/planesmith-VERSION-linux-ARCH.tar.xz on Debian 12: static programs for any Linux, with man pages, completions,
# profiles, scripts, documents, and the licences of all that is linked. --wheel makes the Python wheel of the same
# programs as well. scripts/Dockerfile copies what this leaves in build/portable. The same commit and packages give the same
# bytes, whatever the directory and the day.
#
# ARCH=aarch64 makes it for that machine with a cross compiler. SOURCE_DATE_EPOCH: the time that files get (that of the last
# commit).
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/common.sh
wheel=false
for argument in "$@"; do
  case $argument in --wheel) wheel=true ;; -h | --help) usage; exit 0 ;; *) wrong "$argument is not an option" ;; esac
done
export LC_ALL=C ARCH=${ARCH:-$(uname -m)} SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null)}
[ -n "$SOURCE_DATE_EPOCH" ] || die "git log gives no date of a commit (no git, or not a repository of this user): set SOURCE_DATE_EPOCH to the time that files get"
version=$(sed -n 's/^project(planesmith VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=planesmith-$version-linux-$ARCH
build=build/portable needs=(portable) toolchain=()
case $ARCH in
  "$(uname -m)") ;;
  aarch64) export CC=aarch64-linux-gnu-gcc; build=build/portable-$ARCH; needs+=(arm64) toolchain=(--toolchain "$PWD/scripts/arm64.cmake") ;;
  *) die "ARCH=$ARCH: this machine makes $(uname -m) and aarch64" ;;
esac

for what in "${needs[@]}"; do ./scripts/install-deps.sh "$what"; done
./scripts/portable-deps.sh "$build/deps" "${toolchain[@]}"
cmake --preset portable -B "$build" "${toolchain[@]}" >/dev/null
cmake --build "$build" --target documents
rm -rf "$build"/planesmith-*-linux-*
root=$PWD/$build/$name
cmake --install "$build" --prefix "$root" --strip >/dev/null

# Whose code is in the programs: archives that the linker took members of, headers that were compiled, and Chart.js.
files_used() {
  sed -n '/^Memory Configuration/q; s/^\(\/[^(]*\.a\)(.*/\1/p' "$build"/apps/*.map
  # A compiler cache may have made paths relative to the build directory.
  ninja -C "$build" -t deps |
    awk -v build="$build/" '/^[^ ]/ { ours = /^(lib|apps)\// } ours && /^ / { print ($1 ~ /^\// ? "" : build) $1 }'
  echo /usr/share/javascript/chart.js/chart.min.js
}
packages_used() {
  # A cross compiler's libraries are those of this machine's packages, in a directory of this tree.
  files_used | sort -u | xargs realpath |
    sed "s|^$PWD/build/sysroot-[^/]*/\(.*\)/$ARCH-linux-gnu/|/\1/$(uname -m)-linux-gnu/|; s|^$PWD/build/sysroot-[^/]*/|/|" |
    grep -v "^$PWD/" | sort -u | xargs dpkg -S | sed 's/: .*//' | sort -u
}
licences=$root/share/doc/planesmith/licences
mkdir -p "$licences"
packages=$(packages_used)
while read -r package; do
  source=$(dpkg-query -W -f '${source:Package}' "$package")
  dpkg-query -W -f '${source:Package} ${source:Version}\n' "$package" >>"$licences/libraries"
  cp "/usr/share/doc/${package%:*}/copyright" "$licences/$source"
done <<<"$packages"
cat "$build/deps/licences/libraries" >>"$licences/libraries"
for licence in "$build"/deps/licences/*; do [ "${licence##*/}" = libraries ] || cp "$licence" "$licences/"; done
sort -u -o "$licences/libraries" "$licences/libraries"
texts=$(grep -ohE '/usr/share/common-licenses/[A-Za-z]+-[0-9.]*[0-9]' "$licences"/* | sort -u)
mkdir "$licences/common"
xargs cp -t "$licences/common" <<<"$texts"  # what the licences refer to

mkdir -p dist
tar --create --sort=name --format=gnu --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX \
  -C "$build" "$name" | xz -9 --threads=1 >"dist/$name.tar.xz.tmp"
mv "dist/$name.tar.xz.tmp" "dist/$name.tar.xz"
made=("dist/$name.tar.xz")
if $wheel; then made+=("$(scripts/wheel.py "$root" "$version" "$ARCH" dist)"); fi
for file in "${made[@]}"; do say "$file: $(stat -c %s "$file") bytes"; done
sha256sum "${made[@]}"
