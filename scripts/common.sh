# shellcheck shell=bash
# Sourced by the scripts that operators run: puts the programs on the PATH; messages and arguments.
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
if [ -e "$here/../CMakeLists.txt" ]; then
  PATH=$here/../build/release/bin:$PATH  # in a source tree, built or not
elif [ -x "$here/../../../bin/build-planescache" ]; then
  PATH=$here/../../../bin:$PATH  # installed: share/planesmith/scripts, and bin beside share
fi

say() { printf '%s\n' "$*" >&2; }
die() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; exit 1; }
# usage: prints the comment at the top of the script.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }
# For scripts whose stdout is meant for eval: on failure they print "false", so that eval fails too.
print_false_on_failure() { trap '[ $? = 0 ] || echo false' EXIT; }
wrong() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; usage >&2; exit 2; }
# value_of OPTION REST...: the value that must follow an option.
value_of() { [ $# -ge 2 ] || wrong "$1 needs a value"; printf '%s' "$2"; }
need() {
  local program
  for program in "$@"; do
    command -v "$program" >/dev/null && continue
    case $program in
      python3 | xz) die "$program is needed" ;;
      *) die "$program is not on the PATH; build it first (scripts/install-deps.sh && cmake --preset release && cmake --build --preset release)" ;;
    esac
  done
}
