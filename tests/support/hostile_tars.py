#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One small archive per way to attack whoever unpacks an image.

    hostile_tars.py OUTDIR       OUTDIR must be absent or empty

Writes OUTDIR/tar/NAME.tar[.gz|.zst], OUTDIR/oci/NAME/ (an OCI layout, tag "x"), OUTDIR/docker-archive/NAME.tar and
OUTDIR/cases.json: a list of {file, format, why, expect}, file relative to OUTDIR,
    format  tar | oci | docker-archive
    expect  reject     must be refused with an error, and nothing of it kept
            contained  may be taken or refused; never a crash, never anything outside the tree, bounded time
                       and memory. Where `why` says what the tree must then be, that holds if it is taken
A tar holds a harmless entry "before" first, so that a reader that stops half-way has something to leave behind;
raw_, cut_ and flip_ cases are damaged archives. The cases are in hostile_tar_cases.py, hostile_images.py. Same bytes every time. Takes a few seconds, about 20 MB.
Exit: 0; 1 a Python traceback; 2 usage.
"""
import json
import os
import sys

sys.dont_write_bytecode = True     # no __pycache__ in the repository
import hostile_images
import hostile_tar_cases


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__, file=sys.stderr)
        return 2
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    if os.listdir(out):
        print(f"hostile_tars: {out} is not empty", file=sys.stderr)
        return 2
    cases = []
    for name, why, expect, data in hostile_tar_cases.cases():
        file = f"tar/{name}"
        write(out, file, data)
        cases.append(dict(file=file, format="tar", why=why, expect=expect))
    for name, why, expect, files in hostile_images.oci_cases():
        for path, data in files.items():
            write(out, f"oci/{name}/{path}", data)
        cases.append(dict(file=f"oci/{name}", format="oci", why=why, expect=expect))
    for name, why, expect, data in hostile_images.docker_cases():
        file = f"docker-archive/{name}.tar"
        write(out, file, data)
        cases.append(dict(file=file, format="docker-archive", why=why, expect=expect))
    write(out, "cases.json", json.dumps(cases, indent=1).encode() + b"\n")
    print(f"{len(cases)} cases")
    return 0


def write(out, file, data):
    path = os.path.join(out, file)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if data is hostile_images.FIFO:
        os.mkfifo(path)
        return
    with open(path, "xb") as target:
        target.write(data)


if __name__ == "__main__":
    sys.exit(main())
