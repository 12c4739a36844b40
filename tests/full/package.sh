#!/usr/bin/env bash
# The Debian package on a clean machine: a fresh Debian in a directory.
. "$(dirname "$0")/../cli/common.sh"
for program in cpack dpkg-deb debootstrap; do
  command -v $program >/dev/null || skip "$program is not installed (scripts/install-deps.sh full)"
done
[ "$(id -u)" = 0 ] || skip "debootstrap and chroot need root"
. /etc/os-release
[ "$ID" = debian ] || skip "the clean machine is made for Debian only"

expect 0 cpack -G DEB --config "$(dirname "$BIN")/CPackConfig.cmake" -B "$WORK/package"
package=$(echo "$WORK"/package/planesmith_*.deb)
[ -s "$package" ] || { fail "no package"; finish; }
dpkg-deb -f "$package" Depends | grep -q libzstd || fail "the package does not depend on the libraries it needs"

root=$WORK/root
mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\{0,1\}\([^ ]*\) .*main.*/\2/p; s/^URIs: *\([^ ]*\).*/\1/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1)
debootstrap --variant=minbase "$VERSION_CODENAME" "$root" ${mirror:+"$mirror"} >"$WORK/debootstrap" 2>&1 ||
  { tail -n 3 "$WORK/debootstrap"; skip "debootstrap does not get a Debian from here"; }
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"  # proxies
cp /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null
cp "$package" "$root/planesmith.deb"
mkdir -p "$root/demo" && cp -r "$GOLDEN/ds4-mini/checkpoint" "$root/demo/"
# No service starts in the directory, and ending it must not stop anything on this machine.
inside() { chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp "$@"; }
expect 0 inside apt-get install -y --no-install-recommends /planesmith.deb
for program in $(cd "$SOURCE/apps" && echo *.cc | sed 's/\.cc//g'); do
  expect 0 inside $program --version
  for file in man/man1/$program.1 bash-completion/completions/$program zsh/vendor-completions/_$program; do
    [ -e "$root/usr/share/$file" ] || [ -e "$root/usr/share/$file.gz" ] || fail "the package has no $file"
  done
done
for script in regenerate serve fetch; do expect 0 inside /usr/share/planesmith/scripts/$script.sh --help; done
expect 0 inside build-planescache /demo/checkpoint --out /demo/cache --ckpt-id demo
expect 0 inside verify-ckpt-id check --planescache /demo/cache --ckpt-id demo
expect 0 inside verify-ckpt-id check --planescache /demo/cache --ckpt-id demo --print-env
prints '^export VLLM_MOE_W2_CKPT_ID='
expect 0 inside apt-get remove -y planesmith
[ ! -e "$root/usr/bin/verify-ckpt-id" ] || fail "the package leaves programs behind"
finish
