#!/usr/bin/env bash
# make install: programs, man pages, completions, profiles and scripts where they belong, working from there.
. "$(dirname "$0")/common.sh"
build=$(dirname "$BIN")
expect 0 cmake --install "$build" --prefix "$WORK/usr"
PATH=$WORK/usr/bin:$PATH
for program in build-planescache build-fp4-packs verify-ckpt-id pack-chunks repack-experts; do
  expect 0 "$WORK/usr/bin/$program" --version
  prints "^$program \(planesmith [0-9.]+\)$"; prints '^zstd '
  for file in share/man/man1/$program.1 share/bash-completion/completions/$program share/zsh/site-functions/_$program; do
    [ -s "$WORK/usr/$file" ] || fail "$file is not installed"
  done
done
for file in share/doc/planesmith/copyright share/planesmith/profile.schema.json share/planesmith/manifest.schema.json \
  share/planesmith/scripts/common.sh; do
  [ -s "$WORK/usr/$file" ] || fail "$file is not installed"
done
[ ! -e "$WORK/usr/bin/unit-tests" ] && [ ! -e "$WORK/usr/bin/make-checkpoint" ] || fail "test programs are installed"
for script in regenerate.sh serve.sh fetch.sh; do expect 0 "$WORK/usr/share/planesmith/scripts/$script" --help; done
cmp -s "$WORK/usr/share/planesmith/profiles/DeepSeek-V4-Flash.json" "$SOURCE/manifests/profiles/DeepSeek-V4-Flash.json" ||
  fail "the profiles are not installed"
finish
