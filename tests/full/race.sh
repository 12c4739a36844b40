#!/usr/bin/env bash
# What races against other users' renames and links, for half a minute each; with and without the kernel's own protection
# of sticky directories, where that can be chosen.
. "$(dirname "$0")/../cli/common.sh"
export RACE_SECONDS=30
knob=/proc/sys/fs/protected_symlinks
races() {
  expect 0 "$BIN/../tests/bin/fault-dir" -tc='a directory exchanged*'
  for script in strangers strangers_fetch strangers_stores; do
    bash "$SOURCE/tests/cli/$script.sh"; status=$?
    [ $status = 0 ] || [ $status = 77 ] || fail "$script.sh${1:+, protected_symlinks $1}"
  done
}
was=$(cat $knob 2>/dev/null)
if [ -n "$was" ] && echo "$was" 2>/dev/null >$knob; then
  trap 'echo "$was" >$knob; rm -rf "$WORK"' EXIT
  for protected in 0 1; do echo $protected >$knob; races $protected; done
else
  echo "SKIPPED: protected_symlinks 0 and 1 ($knob cannot be written to)"
  races
fi
finish
