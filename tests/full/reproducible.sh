#!/usr/bin/env bash
# Two releases of one commit, made in two directories, are the same bytes.
. "$(dirname "$0")/../cli/common.sh"
(. /etc/os-release && [ "$ID$VERSION_ID" = debian12 ]) || skip "releases are made on Debian 12"
cd "$SOURCE" || exit 1
for place in one another/directory; do
  git clone -q . "$WORK/$place"
  # A compiler cache would give the second what the first made.
  expect 0 env -C "$WORK/$place" CCACHE_DISABLE=1 ./scripts/release.sh --wheel || { tail -n 20 "$WORK/err"; finish; }
done
for file in $(cd "$WORK/one/dist" && ls); do
  same "$WORK/one/dist/$file" "$WORK/another/directory/dist/$file"
  sha256sum "$WORK/one/dist/$file"
done
finish
