#!/usr/bin/env bash
# Installs the Debian or Ubuntu packages that Planesmith needs; does nothing if all are installed.
#   install-deps.sh          to build and use it
#   install-deps.sh test     and to run the ordinary tests
#   install-deps.sh ci       and for what every landing must pass
#   install-deps.sh full     and for everything that test.sh --full runs
#   install-deps.sh portable to build, and to make the portable programs (release.sh); Debian 12
#   install-deps.sh arm64    to cross-compile for 64-bit Arm (preset arm64) and to run that under qemu; Debian only
# Without root or sudo it prints the command to run and exits 1.
set -euo pipefail

libraries=(libcli11-dev libfmt-dev nlohmann-json3-dev libzstd-dev libarchive-dev libxxhash-dev libre2-dev libssl-dev
           libcurl4-openssl-dev libyaml-cpp-dev libjs-chart.js doctest-dev)
build=(build-essential cmake ninja-build ccache pkg-config "${libraries[@]}")
test=(clang libclang-rt-dev zstd xxhash python3 curl libarchive-tools)
portable=(dpkg-dev debian-archive-keyring xz-utils python3)
arm64=(g++-aarch64-linux-gnu qemu-user-static)
ci=("${arm64[@]}" clang-format shellcheck)
full=("${portable[@]}" busybox-static strace python3-venv clang-tidy clang-tools cppcheck slurm-wlm munge chromium debootstrap zsh groff
      xfsprogs btrfs-progs dosfstools exfatprogs exfat-fuse bindfs nfs-kernel-server)

case ${1:-build} in
  build) wanted=("${build[@]}") ;;
  test) wanted=("${build[@]}" "${test[@]}") ;;
  ci) wanted=("${build[@]}" "${test[@]}" "${ci[@]}") ;;
  portable) wanted=("${build[@]}" "${portable[@]}") ;;
  full) wanted=("${build[@]}" "${test[@]}" "${ci[@]}" "${full[@]}") ;;
  arm64) wanted=("${build[@]}" "${test[@]}" "${arm64[@]}") ;;
  *) sed -n '2,9s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac

if ! command -v apt-get >/dev/null; then
  printf 'This is neither Debian nor Ubuntu. Install the equivalents of these packages, then continue:\n  %s\n' "${wanted[*]}" >&2
  exit 1
fi
missing=()
for package in "${wanted[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  become=()
  if [ "$(id -u)" != 0 ]; then
    # sudo may ask for a password only on a terminal.
    if command -v sudo >/dev/null && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
      become=(sudo)
    else
      printf 'Packages are missing, and this is neither root nor a user of sudo. An administrator has to run:\n  apt-get update && apt-get install -y --no-install-recommends %s\n' \
        "${missing[*]}" >&2
      exit 1
    fi
  fi
  echo "Installing: ${missing[*]}" >&2
  "${become[@]}" apt-get -qq update >&2
  "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "${missing[@]}" >&2
fi

have=$(cmake --version | sed -n '1s/.* //p')
if [ "$(printf '3.25\n%s\n' "$have" | sort -V | head -n1)" != 3.25 ]; then
  echo "cmake $have is too old: 3.25 is needed (Debian 12, Ubuntu 24.04 or newer; or: pip install cmake)." >&2
  exit 1
fi

# The libraries for 64-bit Arm go into a directory of their own: not all of them can be installed beside this machine's, and
# those that can must have the same version.
sysroot_arm64() {
  local root=build/sysroot-arm64 apt state archive
  [ ! -e "$root/complete" ] || return 0
  rm -rf "$root"
  state=$(mktemp -d)
  mkdir -p "$root" "$state/lists/partial" "$state/archives/partial"
  : >"$state/status"
  apt=(apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o "Dir::State=$state"
       -o "Dir::State::status=$state/status" -o "Dir::Cache=$state" -o "APT::Sandbox::User=$(id -un)")
  echo "Unpacking the libraries for arm64 in $root" >&2
  "${apt[@]}" update >&2
  "${apt[@]}" install -y --download-only --no-install-recommends libc6-dev "${libraries[@]}" >&2
  for archive in "$state"/archives/*.deb; do dpkg -x "$archive" "$root"; done
  rm -rf "$state"
  : >"$root/complete"
}
if [ "${1:-}" = arm64 ]; then
  cd "$(dirname "$0")/.."
  sysroot_arm64
fi
