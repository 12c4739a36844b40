#!/usr/bin/env python3
"""usage: wheel.py ROOT VERSION ARCH OUT

Makes a wheel of the static programs that release.sh installed in ROOT (bin, share) and prints its path. The programs are
its scripts and share is its data, so that programs find their profiles; the only Python file has the version.
The same files and SOURCE_DATE_EPOCH give the same bytes.
"""
import base64
import hashlib
import os
import sys
import time
import zipfile

METADATA = """Metadata-Version: 2.1
Name: planesmith
Version: {version}
Summary: Offline caches for serving mixture-of-experts models from 2-bit planes
License: Apache-2.0
Requires-Python: >=3.7
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{readme}"""
WHEEL = """Wheel-Version: 1.0
Generator: planesmith
Root-Is-Purelib: false
Tag: {tag}
"""


def files_below(root):
    """Paths relative to root, sorted."""
    found = []
    for place, _, names in os.walk(root):
        found += [os.path.relpath(os.path.join(place, name), root) for name in names]
    return sorted(found)


class Wheel:
    """A wheel that is being written."""

    def __init__(self, path):
        self.archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
        epoch = max(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), 315532800)  # a zip begins in 1980
        self.time = time.gmtime(epoch)[:6]
        self.records = []

    def put(self, name, data, executable=False):
        info = zipfile.ZipInfo(name, self.time)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.create_system = 3  # Unix, whose modes follow
        info.external_attr = (0o100755 if executable else 0o100644) << 16
        self.archive.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.records.append(f"{name},sha256={digest},{len(data)}\n")

    def finish(self, record):
        self.records.append(f"{record},,\n")
        self.put(record, "".join(self.records).encode())
        self.archive.close()


def main():
    if len(sys.argv) != 5 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    root, version, arch, out = sys.argv[1:]
    tag = f"py3-none-manylinux_2_17_{arch}"
    path = os.path.join(out, f"planesmith-{version}-{tag}.whl")
    base = f"planesmith-{version}"
    documents = "share/doc/planesmith/"

    def contents(name):
        with open(os.path.join(root, name), "rb") as file:
            return file.read()

    wheel = Wheel(path + ".tmp")
    wheel.put("planesmith/__init__.py", f'__version__ = "{version}"\n'.encode())
    for name in files_below(root):
        executable = os.access(os.path.join(root, name), os.X_OK)
        if name.startswith("bin/"):
            wheel.put(f"{base}.data/scripts/{name[4:]}", contents(name), True)
        elif name.startswith(documents + "licences/") or name == documents + "copyright":
            wheel.put(f"{base}.dist-info/licenses/{name[len(documents):]}", contents(name))
        else:
            wheel.put(f"{base}.data/data/{name}", contents(name), executable)
    readme = contents(documents + "README.md").decode()
    wheel.put(f"{base}.dist-info/METADATA", METADATA.format(version=version, readme=readme).encode())
    wheel.put(f"{base}.dist-info/WHEEL", WHEEL.format(tag=tag).encode())
    wheel.finish(f"{base}.dist-info/RECORD")
    os.replace(path + ".tmp", path)
    print(path)


main()
