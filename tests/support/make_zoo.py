#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A tree with every kind of entry there is, made from a seed: as a directory, or as a tar that unpacks to it.

    make_zoo.py DIR [--seed N] [--max-xattr BYTES]      DIR must be absent or empty
    make_zoo.py --tar FILE [--format pax|gnu] [--seed N] [--max-xattr BYTES]

--max-xattr leaves out longer xattr values: with 3000, the tar and what ext4 can hold are the same tree.

The tar holds the same tree but for sockets, which tar cannot hold; xattrs are SCHILY.xattr.* (ACLs too, as
their system.posix_acl_* value). Format gnu has no xattrs and whole seconds only. Holes are GNU sparse 1.0 in
pax, type S in gnu. Every name starts with "./", the root is "./".

DIR wants root. What the file system refuses (an xattr too long for ext4, a device without root) is said on
stderr, "skipped PATH: WHAT: why", and left out. Only xattr user.long is expected to be.
Prints the number of entries. Exit: 0; 1 a Python traceback; 2 usage.
"""
import argparse
import os
import socket
import sys

sys.dont_write_bytecode = True     # no __pycache__ in the repository
import tarwriter as tar
from zoo_entries import BASE_TIME, zoo


class DirWriter:
    def __init__(self, root):
        os.makedirs(root, exist_ok=True)
        if os.listdir(root):
            sys.exit(f"make_zoo: {root} is not empty")
        os.chdir(root)
        self.directories = []

    def attempt(self, entry, what, call, *args, **kwargs):
        try:
            call(*args, **kwargs)
        except OSError as error:
            print(f"skipped {ascii(os.fsdecode(entry.path))}: {what}: {error.strerror}", file=sys.stderr)

    def add(self, entry):
        path = entry.path or b"."
        if entry.kind == tar.HARD:
            self.attempt(entry, "hard link", os.link, entry.link, path, follow_symlinks=False)
            return
        self.attempt(entry, "create", self.create, entry, path)
        if not os.path.lexists(path):
            return
        if entry.kind == tar.DIR:
            self.directories.append(entry)      # its mode and times come last, or children could not be made
        else:
            self.finish(entry, path)

    def create(self, entry, path):
        if entry.kind == tar.DIR:
            os.makedirs(path, exist_ok=True)
        elif entry.kind == tar.SYM:
            os.symlink(entry.link, path)
        elif entry.kind == tar.FIFO:
            os.mkfifo(path)
        elif entry.kind in (tar.CHR, tar.BLK):
            os.mknod(path, 0o600 | (0o020000 if entry.kind == tar.CHR else 0o060000), os.makedev(*entry.rdev))
        elif entry.kind == b"socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(path)
        else:
            with open(path, "xb") as file:
                for offset, data in entry.pieces:
                    file.seek(offset)
                    file.write(data)
                file.truncate(entry.size)

    def finish(self, entry, path):
        """Owner before mode and capabilities, as chown clears them."""
        self.attempt(entry, "owner", os.lchown, path, entry.uid, entry.gid)
        if entry.kind != tar.SYM:
            self.attempt(entry, "mode", os.chmod, path, entry.mode)
        for name, value in entry.xattrs:
            self.attempt(entry, "xattr " + ascii(os.fsdecode(name)), os.setxattr, path, name, value, follow_symlinks=False)
        self.attempt(entry, "mtime", os.utime, path, ns=(BASE_TIME, entry.mtime), follow_symlinks=False)
        if os.lstat(path).st_mtime_ns != entry.mtime:
            print(f"skipped {ascii(os.fsdecode(entry.path))}: mtime: out of range here", file=sys.stderr)

    def close(self):
        for entry in reversed(self.directories):
            self.finish(entry, entry.path or b".")


def decimal(ns):
    sign, ns = ("-", -ns) if ns < 0 else ("", ns)
    return f"{sign}{ns // 10**9}.{ns % 10**9:09d}".encode()


class TarWriter:
    def __init__(self, path, pax):
        self.file = open(path, "wb")
        self.pax = pax

    def add(self, entry):
        if entry.kind == b"socket":
            return
        name = b"./" + entry.path + (b"/" if entry.kind == tar.DIR and entry.path else b"")
        link = b"./" + entry.link if entry.kind == tar.HARD else entry.link
        sparse = entry.size != sum(len(data) for _, data in entry.pieces)
        fields = dict(mode=entry.mode, uid=entry.uid, gid=entry.gid, mtime=entry.mtime // 10**9, link=link, rdev=entry.rdev)
        (self.add_pax if self.pax else self.add_gnu)(entry, name, sparse, fields)

    def add_pax(self, entry, name, sparse, fields):
        records, data = [(b"mtime", decimal(entry.mtime))], b"".join(data for _, data in entry.pieces)
        for key in ("uid", "gid"):
            if fields[key] >= 8**7:
                records.append((key.encode(), b"%d" % fields[key]))
                fields[key] = 0
        fields["mtime"] = max(0, fields["mtime"])
        if sparse:
            segments = [(offset, len(data)) for offset, data in entry.pieces] + [(entry.size, 0)]
            table = b"%d\n" % len(segments) + b"".join(b"%d\n%d\n" % s for s in segments)
            data = tar.padded(table) + data
            records += [(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"), (b"GNU.sparse.name", name),
                        (b"GNU.sparse.realsize", b"%d" % entry.size)]
            name = os.path.dirname(name) + b"/GNUSparseFile.0/" + os.path.basename(name)
        self.file.write(tar.entry(name, entry.kind, data, xattrs=entry.xattrs, records=records, **fields))

    def add_gnu(self, entry, name, sparse, fields):
        for value, kind in ((name, b"L"), (fields["link"], b"K")):
            if len(value) > 100:
                self.file.write(tar.gnu_long(value, kind))
        kind, data = entry.kind, b"".join(data for _, data in entry.pieces)
        if sparse:
            segments = [(offset, len(data)) for offset, data in entry.pieces] + [(entry.size, 0)]
            table = b"".join(tar.number(n, 12) for segment in segments for n in segment)
            # atime, ctime, multivolume offset, longnames and a spare byte are 41 bytes; then four segments.
            kind, fields["tail"] = b"S", bytes(41) + table.ljust(96, b"\0") + b"\0" + tar.number(entry.size, 12)
        self.file.write(tar.header(name, kind, size=len(data), gnu=True, **fields) + tar.padded(data))

    def close(self):
        self.file.write(tar.END)
        self.file.close()


def main():
    parser = argparse.ArgumentParser(usage="make_zoo.py DIR | --tar FILE [--format pax|gnu]"
                                     "  [--seed N] [--max-xattr BYTES]")
    parser.add_argument("dir", nargs="?")
    parser.add_argument("--tar")
    parser.add_argument("--format", choices=("pax", "gnu"), default="pax")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--max-xattr", type=int, default=1 << 20)
    args = parser.parse_args()
    if (args.dir is None) == (args.tar is None):
        parser.error("give DIR or --tar FILE")
    os.umask(0o022)
    writer = DirWriter(args.dir) if args.dir else TarWriter(args.tar, args.format == "pax")
    count = 0
    for entry in zoo(args.seed):
        entry.xattrs = [(name, value) for name, value in entry.xattrs if len(value) <= args.max_xattr]
        writer.add(entry)
        count += 1
    writer.close()
    print(f"{count} entries")
    return 0


if __name__ == "__main__":
    sys.exit(main())
