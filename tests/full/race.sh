#!/usr/bin/env bash
# What races against other users' renames and links, for half a minute each.
. "$(dirname "$0")/../cli/common.sh"
export RACE_SECONDS=30
expect 0 "$BIN/../tests/bin/fault-dir" -tc='a directory exchanged*'
for script in strangers strangers_stores; do
  bash "$SOURCE/tests/cli/$script.sh"; status=$?
  [ $status = 0 ] || [ $status = 77 ] || fail "$script.sh"
done
finish
