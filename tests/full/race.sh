#!/usr/bin/env bash
# What races against other users' renames and links, for half a minute each.
. "$(dirname "$0")/../cli/common.sh"
export RACE_SECONDS=30
expect 0 "$BIN/../tests/bin/fault-dir" -tc='a directory exchanged*'
bash "$SOURCE/tests/cli/strangers.sh"; status=$?
[ $status = 0 ] || [ $status = 77 ] || fail "strangers.sh"
finish
