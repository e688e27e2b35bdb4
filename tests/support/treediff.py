#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compare two directory trees exactly, in both directions.

    treediff.py A B [--json] [--ignore KEY]... [--no-content]

Compared for every path, the root itself included (shown as "."):
    path     present on both sides
    type     file dir symlink chardev blockdev fifo socket
    mode     permission bits with suid, sgid, sticky
    uid gid
    mtime    in ns (of directories and symlinks too)
    nlink    of directories too
    size     of regular files and symlinks (a directory's size belongs to its file system)
    content  SHA-256 of a regular file's bytes (not with --no-content)
    target   of a symlink
    rdev     of a device
    xattrs   every name the caller may list (root: all namespaces) and its value
    hardlink the set of paths inside the tree that share (dev, ino); not for directories

Symlinks are never followed, except A and B themselves. Names are bytes, and non-printing ones are shown
as \\xNN escapes. A directory on another device than its root is compared like any other.

--ignore KEY   a field above (twice or comma separated for several); "xattrs:PREFIX" ignores the names
               that begin with PREFIX, e.g. xattrs:trusted.overlay.
--json         one JSON object per difference, in the same order, instead of text

Output: one line per difference, sorted by path:   path: field: A-value B-value
Exit: 0 equal, 1 different, 2 usage, or something could not be read (said on stderr).
Both trees must hold still meanwhile. Memory: about 1 kB per entry.
"""
import argparse
import errno
import hashlib
import json
import os
import stat
import sys

TYPES = {stat.S_IFREG: "file", stat.S_IFDIR: "dir", stat.S_IFLNK: "symlink", stat.S_IFCHR: "chardev",
         stat.S_IFBLK: "blockdev", stat.S_IFIFO: "fifo", stat.S_IFSOCK: "socket"}
FIELDS = ("path", "type", "mode", "uid", "gid", "mtime", "nlink", "size", "content", "target", "rdev",
          "xattrs", "hardlink")
READ_BYTES = 1 << 20


class Tree:
    """Everything about one tree but the content, which is hashed on demand, once per inode."""

    def __init__(self, root):
        self.root = root
        self.stats = {}     # relative path -> os.stat_result; b"." is the root
        self.groups = {}    # (dev, ino) -> sorted paths, for inodes with nlink > 1
        self.digests = {}   # (dev, ino) -> hex
        self.walk()

    def full(self, path):
        return self.root if path == b"." else self.root + b"/" + path

    def walk(self):
        self.stats[b"."] = os.stat(self.root)
        if not stat.S_ISDIR(self.stats[b"."].st_mode):
            raise NotADirectoryError(errno.ENOTDIR, "not a directory", self.root)
        todo = [b""]
        while todo:
            prefix = todo.pop()
            with os.scandir(self.root + b"/" + prefix) as entries:
                for entry in entries:
                    path = prefix + entry.name
                    st = self.stats[path] = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(st.st_mode):
                        todo.append(path + b"/")
                    elif st.st_nlink > 1:
                        self.groups.setdefault((st.st_dev, st.st_ino), []).append(path)
        for group in self.groups.values():
            group.sort()

    def links(self, path):
        st = self.stats[path]
        return self.groups.get((st.st_dev, st.st_ino), [path])

    def target(self, path):
        return os.readlink(self.full(path))

    def digest(self, path):
        st = self.stats[path]
        key = (st.st_dev, st.st_ino)
        if key not in self.digests:
            self.digests[key] = self.hash_file(path, st)
        return self.digests[key]

    def hash_file(self, path, st):
        # Holes are hashed as zeros without reading them, so that a 3 GiB sparse file costs no I/O.
        digest, done = hashlib.sha256(), 0
        fd = os.open(self.full(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            while True:
                if st.st_blocks * 512 < st.st_size:
                    done += skip_hole(fd, done, st.st_size, digest)
                block = os.pread(fd, min(READ_BYTES, max(st.st_size - done, 0) + 1), done)
                if not block:
                    break
                digest.update(block)
                done += len(block)
        finally:
            os.close(fd)
        if done != st.st_size:
            raise OSError(errno.EIO, f"stat says {st.st_size} bytes, read {done}", self.full(path))
        return digest.hexdigest()

    def xattrs(self, path):
        """name -> value; a file system without xattrs has none."""
        full = self.full(path)
        try:
            names = os.listxattr(full, follow_symlinks=False)
        except OSError as error:
            if error.errno in (errno.ENOTSUP, errno.ENOSYS):
                return {}
            raise
        return {os.fsencode(n): os.getxattr(full, n, follow_symlinks=False) for n in names}


ZEROS = bytes(READ_BYTES)


def skip_hole(fd, offset, size, digest):
    """Hashes the hole at offset, if there is one; returns its length."""
    try:
        data = os.lseek(fd, offset, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:      # nothing but a hole up to the end
            data = max(size, offset)
        elif error.errno == errno.EINVAL:   # the file system cannot tell
            return 0
        else:
            raise
    left = data - offset
    while left > 0:
        digest.update(ZEROS[:left])
        left -= READ_BYTES
    return data - offset


def show(raw):
    """Bytes for a person: printable ASCII stays, the rest is escaped."""
    return "".join(chr(b) if 0x20 <= b < 0x7f and b != 0x5c else "\\\\" if b == 0x5c else
                   "\\n" if b == 0x0a else f"\\x{b:02x}" for b in raw)


def show_value(raw):
    return show(raw) if len(raw) <= 64 else f"{len(raw)} bytes sha256:{hashlib.sha256(raw).hexdigest()}"


def compare_xattrs(path, a, b, ignored):
    left, right = a.xattrs(path), b.xattrs(path)
    for name in sorted(left.keys() | right.keys()):
        if name.startswith(ignored) or left.get(name) == right.get(name):
            continue
        yield "xattr " + show(name), *("(none)" if name not in side else f'"{show_value(side[name])}"'
                                       for side in (left, right))


def compare_entry(path, a, b, wanted, ignored_xattrs):
    """Yields (field, A-value, B-value) for a path that both trees have."""
    x, y = a.stats[path], b.stats[path]
    kind = stat.S_IFMT(x.st_mode)
    same_type = kind == stat.S_IFMT(y.st_mode)
    is_file, is_link = same_type and kind == stat.S_IFREG, same_type and kind == stat.S_IFLNK

    def pairs():
        yield "type", TYPES[kind], TYPES[stat.S_IFMT(y.st_mode)]
        yield "mode", f"{stat.S_IMODE(x.st_mode):04o}", f"{stat.S_IMODE(y.st_mode):04o}"
        yield "uid", x.st_uid, y.st_uid
        yield "gid", x.st_gid, y.st_gid
        yield "mtime", x.st_mtime_ns, y.st_mtime_ns
        yield "nlink", x.st_nlink, y.st_nlink
        if is_file or is_link:
            yield "size", x.st_size, y.st_size
        if is_file and "content" in wanted:
            yield "content", a.digest(path), b.digest(path)
        if is_link:
            yield "target", show(a.target(path)), show(b.target(path))
        if same_type and kind in (stat.S_IFCHR, stat.S_IFBLK):
            yield "rdev", *(f"{os.major(s.st_rdev)}:{os.minor(s.st_rdev)}" for s in (x, y))
        if kind != stat.S_IFDIR and same_type and a.links(path) != b.links(path):
            yield "hardlink", *("{" + ", ".join(map(show, t.links(path))) + "}" for t in (a, b))

    yield from (p for p in pairs() if p[0] in wanted and p[1] != p[2])
    if "xattrs" in wanted:
        yield from compare_xattrs(path, a, b, ignored_xattrs)


def differences(a, b, wanted, ignored_xattrs):
    """Yields (path, field, A-value, B-value), sorted by path."""
    for path in sorted(a.stats.keys() | b.stats.keys()):
        if path in a.stats and path in b.stats:
            for field, left, right in compare_entry(path, a, b, wanted, ignored_xattrs):
                yield path, field, left, right
        elif "path" in wanted:
            yield path, "path", *(TYPES[stat.S_IFMT(t.stats[path].st_mode)] if path in t.stats
                                  else "(absent)" for t in (a, b))


def parse_args():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--no-content", action="store_true")
    parser.add_argument("--ignore", action="append", default=[])
    args = parser.parse_args()
    keys = [k for arg in args.ignore for k in arg.split(",")]
    prefixes = tuple(os.fsencode(k[7:]) for k in keys if k.startswith("xattrs:") and len(k) > 7)
    ignored = {k for k in keys if not k.startswith("xattrs:")} | ({"content"} if args.no_content else set())
    if unknown := ignored - set(FIELDS) | {k for k in keys if k == "xattrs:"}:
        parser.error(f"--ignore {sorted(unknown)[0]}: not one of {' '.join(FIELDS)} xattrs:PREFIX")
    return args, set(FIELDS) - ignored, prefixes


def main():
    args, wanted, prefixes = parse_args()
    found = 0
    try:
        a, b = Tree(os.fsencode(args.a)), Tree(os.fsencode(args.b))
        for path, field, left, right in differences(a, b, wanted, prefixes):
            found += 1
            if args.json:
                print(json.dumps({"path": show(path), "field": field, "a": left, "b": right}))
            else:
                print(f"{show(path)}: {field}: {left} {right}")
        sys.stdout.flush()
    except OSError as error:
        name = os.fsencode(error.filename or "standard output")
        print(f"treediff: {show(name)}: {error.strerror}", file=sys.stderr)
        return 2
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
