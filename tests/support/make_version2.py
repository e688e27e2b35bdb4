#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Version 2 of a root file system, as a layer tar: 1 % of its bytes changed, in files chosen by their names.

    make_version2.py ROOT TAR EPOCH

Files are taken in the order of SHA-256(path) until the changed bytes are 1 % of all regular files' bytes:
    ELF files         a fifth of their size (at most 256 KiB) is appended, so that programs still run
    data              (below usr/share and *.a, but for what python, perl and gcc's links need) a fifth in the
                      middle is overwritten and 13 bytes are inserted before it
Hard-linked files, files with xattrs and small files (< 64 bytes) are left alone. Parents have no entries in
the tar. Prints one line with the counts. Same ROOT, same tar. Exit: 0; 1 a step failed; 2 usage.
"""
import hashlib
import io
import os
import stat
import sys
import tarfile

NEEDED = (b"usr/share/perl", b"usr/share/python", b"usr/share/ca-certificates")
NEEDED_ARCHIVES = (b"libgcc.a", b"libgcc_eh.a", b"libc_nonshared.a")


def noise(path, size):
    return hashlib.shake_128(path).digest(size)


def regular_files(root):
    """Yields (relative path, stat) of every regular file."""
    for where, _, names in os.walk(root):
        for name in names:
            full = os.path.join(where, name)
            st = os.lstat(full)
            if stat.S_ISREG(st.st_mode):
                yield os.path.relpath(full, root), st


def changed(path, old):
    """The new content and the number of changed bytes, or None to leave the file alone."""
    size = min(len(old) // 5, 256 * 1024)
    if old.startswith(b"\x7fELF") and not path.endswith(b".o"):
        return old + noise(path, size), size
    data = path.startswith(b"usr/share/") and not path.startswith(NEEDED)
    archive = path.endswith(b".a") and os.path.basename(path) not in NEEDED_ARCHIVES
    if not data and not archive:
        return None
    start = len(old) // 3
    return old[:start] + noise(path, size + 13) + old[start + size:], size + 13


def main():
    if len(sys.argv) != 4 or not sys.argv[3].isdigit():
        print(__doc__, file=sys.stderr)
        return 2
    root, epoch = os.fsencode(sys.argv[1]), int(sys.argv[3])
    files = sorted(regular_files(root), key=lambda f: hashlib.sha256(f[0]).digest())
    total = sum(st.st_size for _, st in files)
    done = count = 0
    with tarfile.open(sys.argv[2], "w", format=tarfile.PAX_FORMAT) as tar:
        for path, st in files:
            full = os.path.join(root, path)
            if done * 100 >= total:
                break
            if st.st_nlink > 1 or st.st_size < 64 or os.listxattr(full):
                continue
            with open(full, "rb") as file:
                new = changed(path, file.read())
            if new is None:
                continue
            info = tarfile.TarInfo(os.fsdecode(path))
            info.mode, info.uid, info.gid = stat.S_IMODE(st.st_mode), st.st_uid, st.st_gid
            info.size, info.mtime = len(new[0]), epoch
            tar.addfile(info, io.BytesIO(new[0]))
            done, count = done + new[1], count + 1
    print(f"     changed {done} of {total} bytes ({done * 100 / total:.2f} %) in {count} of {len(files)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
