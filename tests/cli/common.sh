# Sourced by every command-line test: a scratch directory that is removed at the end, and functions for checks. BIN and
# SOURCE come from ctest; by hand: BIN=build/release/bin SOURCE=. bash tests/cli/X.sh
set -u
BIN=${BIN:?directory of the built programs} SOURCE=${SOURCE:?root of the source tree}
GOLDEN=$SOURCE/tests/golden
SHARED=${PLANESMITH_SHARED:-$SOURCE/../shared}
WORK=$(mktemp -d "${TMPDIR:-/tmp}/planesmith.XXXXXX")
trap 'rm -rf "$WORK"' EXIT
PATH=$BIN:$PATH
export XDG_CACHE_HOME=$WORK/.user-cache
failures=0

fail() { printf 'FAIL: %s\n' "$*"; failures=$((failures + 1)); }
skip() { printf 'SKIPPED: %s\n' "$*"; exit 77; }

# expect STATUS COMMAND...: runs it, keeps stdout and stderr in $WORK/out and $WORK/err, checks the exit status.
expect() {
  local want=$1 got; shift
  "$@" >"$WORK/out" 2>"$WORK/err"; got=$?
  [ "$got" = "$want" ] && return 0
  fail "exit $got instead of $want: $*"; sed 's/^/    /' "$WORK/err" | tail -5
  return 1
}
# says PATTERN / prints PATTERN: the last command's stderr / stdout has a line matching the extended regex.
says() { grep -Eq -- "$1" "$WORK/err" || { fail "stderr lacks '$1'"; sed 's/^/    /' "$WORK/err" | tail -5; }; }
prints() { grep -Eq -- "$1" "$WORK/out" || { fail "stdout lacks '$1'"; sed 's/^/    /' "$WORK/out" | tail -5; }; }
same() { cmp -s -- "$1" "$2" || fail "$1 and $2 differ"; }
absent() { [ ! -e "$1" ] || fail "$1 exists"; }
# noise BYTES: the same in every run. Needs python3.
noise() { python3 -c 'import random, sys; sys.stdout.buffer.write(random.Random(5).randbytes(int(sys.argv[1])))' "$1"; }
# make_tree DIR: everything that can be packed, and a file that is mostly hole (DIR/sparse).
make_tree() {
  mkdir -p "$1/sub" "$1/empty dir"
  noise 3000000 >"$1/noise"
  printf 'hello\n' >"$1/sub/$(printf 'n\303\244me')"
  seq 1 100000 >"$1/numbers"
  truncate -s 100M "$1/sparse"
  noise 200000 | dd of="$1/sparse" bs=1M seek=70 conv=notrunc status=none
  : >"$1/empty"
  ln -s sub "$1/link"
  ln "$1/noise" "$1/sub/same"
  chmod 640 "$1/numbers"
  chmod 750 "$1/empty dir"
}
# fingerprint DIR: names, modes, contents and links in it, a line each.
fingerprint() {
  (cd "$1" && find . -mindepth 1 -printf '%P %m %y %l\n' | sort
   find . -type f -print0 | sort -z | xargs -0 sha256sum
   find . -type f -links +1 | sort)
}

# kill_after_each PREPARE CHECK COMMAND...: for N = 1, 2, ... until the command ends by itself: PREPARE, the command killed
# (SIGKILL) right after its Nth operation that changes a file, CHECK. Sets `kills` to the number of kills.
kill_after_each() {
  local prepare=$1 check=$2 shim=$BIN/../tests/bin/kill-after.so status; shift 2
  [ -e "$shim" ] || skip "kill-after.so is not built: with sanitizers nothing can be loaded before them"
  for ((kills = 0; ; kills++)); do
    $prepare
    { LD_PRELOAD=$shim KILL_AFTER=$((kills + 1)) "$@" >"$WORK/out" 2>"$WORK/err"; status=$?; } 2>/dev/null  # "Killed"
    [ $status = 137 ] || break
    $check
    [ "$failures" = 0 ] || { fail "killed after operation $((kills + 1)) of: $*"; return; }
  done
  [ $status = 0 ] || { fail "exit $status: $*"; sed 's/^/    /' "$WORK/err" | tail -5; }
  $check
}
# python_with PACKAGE...: a virtual environment with packages from PyPI comes first on the PATH; made once for a build
# directory. Only what has a wheel is taken. Skips the test where it cannot be made.
python_with() {
  local venv; printf -v venv '%s-' "$@"; venv=$BIN/../venv-${venv%-}
  if ! [ -e "$venv/complete" ]; then
    rm -rf "$venv"
    { python3 -m venv "$venv" &&
      timeout 120 "$venv/bin/pip" install -q --disable-pip-version-check --retries 1 --timeout 15 --only-binary=:all: "$@" &&
      : >"$venv/complete"; } >/dev/null 2>&1 || { rm -rf "$venv"; skip "$* cannot be installed from PyPI here"; }
  fi
  PATH=$venv/bin:$PATH
}
# follow COMMAND...: succeeds, and so does what it says comes next, from a shell that stands elsewhere than the command only if
# its paths are absolute.
follow() {
  expect 0 "$@" || return
  grep '^next: ' "$WORK/err" | sed 's/^next: //' >"$WORK/next"
  [ "$(wc -l <"$WORK/next")" = 1 ] || { fail "no next step: $*"; return; }
  expect 0 bash -e "$WORK/next" || { fail "  that is the next step of: $*"; cat "$WORK/next"; }
}
# A next step that writes nothing more has none of its own.
ends() { expect 0 "$@"; ! grep '^next: ' "$WORK/err" || fail "has a next step: $*"; }
finish() { [ "$failures" = 0 ] && echo "ok" || { echo "$failures failed"; exit 1; }; }
