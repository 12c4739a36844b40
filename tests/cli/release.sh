#!/usr/bin/env bash
# The wheel of scripts/release.sh, made from stand-ins for the static programs; tests/full/portable.sh makes the real one.
. "$(dirname "$0")/common.sh"
command -v python3 >/dev/null || skip "python3 is not installed"
for root in "$WORK/one" "$WORK/other/two"; do
  mkdir -p "$root/bin" "$root/share/doc/planesmith/licences" "$root/share/planesmith/scripts"
  cat >"$root/bin/build-planescache" <<'END'
#!/bin/sh
ls "$(dirname "$(readlink -f "$0")")/../share/planesmith/profiles"
END
  printf '#!/usr/bin/env bash\n. "${0%%/*}/common.sh"\nbuild-planescache\n' >"$root/share/planesmith/scripts/regenerate.sh"
  cp "$SOURCE/scripts/common.sh" "$root/share/planesmith/scripts/"
  cp -r "$SOURCE/manifests/profiles" "$root/share/planesmith/"
  cp "$SOURCE/README.md" "$root/share/doc/planesmith/"
  cp "$SOURCE/LICENSE" "$root/share/doc/planesmith/copyright"
  echo text >"$root/share/doc/planesmith/licences/glibc"
  chmod +x "$root"/bin/* "$root/share/planesmith/scripts/regenerate.sh"
done
touch -d 2001-01-01 "$WORK/one/bin/build-planescache"
mkdir "$WORK/a" "$WORK/b"
export SOURCE_DATE_EPOCH=1700000000
expect 0 "$SOURCE/scripts/wheel.py" "$WORK/one" 1.2.3 x86_64 "$WORK/a"
prints '/planesmith-1\.2\.3-py3-none-manylinux_2_17_x86_64\.whl$'
expect 0 "$SOURCE/scripts/wheel.py" "$WORK/other/two" 1.2.3 x86_64 "$WORK/b"
wheel=$WORK/a/planesmith-1.2.3-py3-none-manylinux_2_17_x86_64.whl
same "$wheel" "$WORK/b/$(basename "$wheel")"
[ "$(ls "$WORK/a")" = "$(basename "$wheel")" ] || fail "left beside the wheel: $(ls "$WORK/a")"

# What a wheel is asked for: each file recorded with its digest, the tag of its name, programs that can be run.
python3 - "$wheel" <<'END' || fail "the wheel is not as it should be"
import base64, csv, hashlib, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
info = "planesmith-1.2.3.dist-info/"
record = {row[0]: row for row in csv.reader(wheel.read(info + "RECORD").decode().splitlines())}
assert sorted(record) == sorted(wheel.namelist())
for name, (_, digest, size) in record.items():
    if name != info + "RECORD":
        data = wheel.read(name)
        assert digest == "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode() and int(size) == len(data), name
assert "Tag: py3-none-manylinux_2_17_x86_64\n" in wheel.read(info + "WHEEL").decode()
assert wheel.getinfo("planesmith-1.2.3.data/scripts/build-planescache").external_attr >> 16 == 0o100755
assert wheel.read(info + "licenses/licences/glibc") == b"text\n"
assert [name for name in wheel.namelist() if name.endswith(".py")] == ["planesmith/__init__.py"]
assert wheel.read("planesmith/__init__.py") == b'__version__ = "1.2.3"\n'
END

if python3 -m venv "$WORK/venv" >/dev/null 2>&1; then
  expect 0 "$WORK/venv/bin/pip" install -q --no-index --disable-pip-version-check "$wheel"
  expect 0 "$WORK/venv/bin/build-planescache"
  prints '^DeepSeek-V4-Flash\.json$'
  PATH=/usr/bin:/bin expect 0 "$WORK/venv/share/planesmith/scripts/regenerate.sh"  # finds the programs beside it
  prints '^DeepSeek-V4-Flash\.json$'
  expect 0 "$WORK/venv/bin/python" -c 'import planesmith; assert planesmith.__version__ == "1.2.3"'
else
  echo "    pip is not tried: python3 -m venv does not work here"
fi

# The container takes what release.sh leaves.
copied=$(sed -n 's/^COPY \([^ ]*\) .*/\1/p' "$SOURCE/scripts/Dockerfile")
grep -qxF "!$copied" "$SOURCE/.dockerignore" || fail ".dockerignore hides $copied"
mkdir -p "$WORK/context/build/portable/planesmith-1.2.3-linux-x86_64"
(cd "$WORK/context" && compgen -G "$copied" >/dev/null) || fail "Dockerfile copies $copied"
expect 2 "$SOURCE/scripts/release.sh" --unknown
says 'is not an option'
expect 1 env ARCH=vax "$SOURCE/scripts/release.sh"
says 'ARCH=vax'
finish
