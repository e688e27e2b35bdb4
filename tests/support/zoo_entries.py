# SPDX-License-Identifier: Apache-2.0
"""The entries of make_zoo.py: zoo(seed) yields every Entry, parents before children, first links before others."""
import dataclasses
import os
import random
import struct

import tarwriter as tar

BASE_TIME = 1_700_000_000 * 10**9 + 123_456_789
OVERLAY_OPAQUE = (b"trusted.overlay.opaque", b"y")


@dataclasses.dataclass
class Entry:
    path: bytes                 # relative; b"" is the root
    kind: bytes = tar.REG       # a tarwriter kind, or b"socket"
    mode: int = 0o644
    uid: int = 0
    gid: int = 0
    mtime: int = BASE_TIME      # ns
    pieces: list = dataclasses.field(default_factory=list)   # [(offset, bytes)], ascending; the rest is holes
    size: int = 0
    link: bytes = b""           # of a symlink: its target; of a hard link: an earlier path
    rdev: tuple = (0, 0)
    xattrs: list = dataclasses.field(default_factory=list)


def plain(path, data, **fields):
    return Entry(path, pieces=[(0, data)] if data else [], size=len(data), **fields)


def directory(path, mode=0o755, **fields):
    return Entry(path, tar.DIR, mode, **fields)


def metadata_entries():
    yield directory(b"modes")
    for mode in (0, 0o1, 0o400, 0o644, 0o777, 0o1755, 0o2755, 0o4755, 0o6711, 0o7777):
        yield plain(b"modes/file_%04o" % mode, b"x", mode=mode)
    for mode in (0o000, 0o700, 0o1777, 0o2775, 0o7777):
        yield directory(b"modes/dir_%04o" % mode, mode)
    yield directory(b"owners")
    for number in (1, 65534, 65535, 65536, 2097151, 2097152, 2**31, 2**32 - 2):
        yield plain(b"owners/%d" % number, b"", uid=number, gid=2**32 - 1 - number)
        yield Entry(b"owners/link_%d" % number, tar.SYM, 0o777, number, number, link=b"x")
    yield directory(b"times")
    for ns in (0, 1, -1, 999_999_999, -1_500_000_000, -10**18 - 1, 2**31 * 10**9 + 5, 2**32 * 10**9 + 1,
               BASE_TIME + 1):
        yield plain(b"times/file_%d" % ns, b"", mtime=ns)
        yield directory(b"times/dir_%d" % ns, mtime=ns)
        yield Entry(b"times/link_%d" % ns, tar.SYM, 0o777, link=b"x", mtime=ns)


def acl(*entries):
    """The value of a system.posix_acl_* xattr; see include/uapi/linux/posix_acl_xattr.h."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *e) for e in entries)


def xattr_entries(rng):
    nobody = 2**32 - 1
    access = acl((1, 6, nobody), (2, 7, 1234), (4, 4, nobody), (16, 6, nobody), (32, 4, nobody))
    default = acl((1, 7, nobody), (4, 5, nobody), (8, 5, 70000), (16, 5, nobody), (32, 0, nobody))
    capability = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)    # cap_net_raw+ep, revision 2
    yield directory(b"xattrs", xattrs=[(b"user.on.a.directory", b"1")])
    yield plain(b"xattrs/empty_value", b"x", xattrs=[(b"user.empty", b"")])
    yield plain(b"xattrs/binary", b"x", xattrs=[(b"user.binary", bytes(range(256)) + b"\n=\n")])
    yield plain(b"xattrs/many", b"x", xattrs=[(b"user.n%02d" % i, b"v%d" % i) for i in range(40)])
    yield plain(b"xattrs/long_name", b"x", xattrs=[(b"user." + b"n" * 250, b"v")])
    yield plain(b"xattrs/name_bytes", b"x", xattrs=[(b"user.\xff \xc3\xa9", b"v")])
    yield plain(b"xattrs/long_value", b"x", xattrs=[(b"user.long", rng.randbytes(60000))])
    yield plain(b"xattrs/2k_value", b"x", xattrs=[(b"user.two", rng.randbytes(2000))])
    yield plain(b"xattrs/capability", b"x", mode=0o755, xattrs=[(b"security.capability", capability)])
    yield plain(b"xattrs/trusted", b"x", xattrs=[(b"trusted.zoo", b"only root sees this")])
    yield plain(b"xattrs/acl", b"x", mode=0o664, xattrs=[(b"system.posix_acl_access", access)])
    yield directory(b"xattrs/acl_dir", xattrs=[(b"system.posix_acl_default", default)])
    yield Entry(b"xattrs/symlink", tar.SYM, 0o777, link=b"acl", xattrs=[(b"trusted.on.a.symlink", b"1")])
    yield Entry(b"xattrs/fifo", tar.FIFO, xattrs=[(b"trusted.on.a.fifo", b"1")])
    # Looks like overlayfs's own marks, but came with the image: must come out as it went in, or be refused.
    yield directory(b"xattrs/opaque", xattrs=[OVERLAY_OPAQUE])
    yield plain(b"xattrs/opaque/child", b"still here\n")
    yield plain(b"xattrs/redirect", b"x", xattrs=[(b"trusted.overlay.redirect", b"/etc/shadow")])


def special_entries():
    yield directory(b"special")
    yield Entry(b"special/fifo", tar.FIFO, 0o622)
    yield Entry(b"special/null", tar.CHR, 0o666, rdev=(1, 3))
    yield Entry(b"special/big_numbers", tar.CHR, 0o600, rdev=(4095, 2**20 - 1))
    yield Entry(b"special/char_0_0", tar.CHR, 0o600, rdev=(0, 0))    # overlayfs takes this for a whiteout
    yield Entry(b"special/block", tar.BLK, 0o660, gid=6, rdev=(259, 65537))
    yield Entry(b"special/socket", b"socket", 0o755)
    for name, target in ((b"dangling", b"no/such/thing"), (b"absolute", b"/etc/passwd"), (b"up", b"../../../.."),
                         (b"self", b"self"), (b"101_bytes", b"t" * 101), (b"long", b"a/" * 2047 + b"b"),
                         (b"bytes", b"caf\xe9\n\xff")):
        yield Entry(b"special/link_" + name, tar.SYM, 0o777, link=target)
    yield directory(b"empty")
    yield directory(b"empty/also_empty", 0o555)


def hard_link_entries():
    """Each group's first path comes first in the tar; the others are in other directories."""
    for name in (b"hard", b"hard/a", b"hard/b", b"hard/b/c"):
        yield directory(name)
    firsts = (plain(b"hard/a/two", b"two links\n", mtime=5), plain(b"hard/a/three", b"3" * 200_000),
              plain(b"hard/z_first", b"first by order, not by name\n", xattrs=[(b"user.shared", b"1")]),
              plain(b"hard/a/empty", b""), Entry(b"hard/a/symlink", tar.SYM, 0o777, 7, 8, link=b"two"),
              Entry(b"hard/a/device", tar.CHR, 0o600, rdev=(1, 5)), Entry(b"hard/a/fifo", tar.FIFO, 0o600))
    for first in firsts:
        yield first
        name = os.path.basename(first.path)
        links = [b"hard/b/" + name] + ([b"hard/b/c/other name of " + name] if name == b"three" else [])
        for link in links:
            yield dataclasses.replace(first, path=link, kind=tar.HARD, link=first.path, pieces=[], size=0)


def content_entries(rng):
    yield directory(b"sizes")
    for size in (0, 1, 511, 512, 513, 4095, 4096, 4097, 131071, 131072, 131073, 262143, 262144, 262145, 1 << 20):
        yield plain(b"sizes/%d" % size, rng.randbytes(size))
    line = b"the quick brown fox jumps over the lazy dog %d\n"
    yield plain(b"sizes/compressible", b"".join(line % (i // 50) for i in range(120_000))[:5 << 20])
    yield plain(b"sizes/zeros", bytes(300_000))
    shared = rng.randbytes(400_000)
    yield plain(b"sizes/shared_content", shared)
    yield plain(b"sizes/shared_content_again", shared)
    yield plain(b"sizes/shared_but_shifted", b"inserted" + shared)
    yield directory(b"sparse")
    block = rng.randbytes(4096)
    for name, size, offsets in ((b"hole_at_start", 1 << 20, [(1 << 20) - 4096]), (b"hole_at_end", 1 << 20, [0]),
                                (b"hole_in_middle", 1 << 20, [0, (1 << 20) - 4096]), (b"all_hole", 1 << 20, []),
                                (b"unaligned_size", 1_000_001, [8192]),
                                (b"3_GiB_with_8_KiB", 3 << 30, [1 << 30, (2 << 30) + 4096])):
        yield Entry(b"sparse/" + name, pieces=[(offset, block) for offset in offsets], size=size)


def name_entries():
    names = [b"n" * 255, b"\xff" * 255, b"\xc3\xa9" * 127 + b"x", b"caf\xe9", b"e\xcc\x81", b"\xc3\xa9", b"new\nline",
             b" ", b"trailing space ", b"-rf", b"--help", b"...", b"..x", b"back\\slash", b"tab\t", b"\x01\x7f", b"*?[a]",
             b"'\"$(true)`", b"a=b", b"Case", b"case", b"%s%n", b"#", b"name:with:colons", b"x" * 99, b"x" * 100, b"x" * 101]
    yield directory(b"names")
    for i, name in enumerate(names):
        yield plain(b"names/" + name, b"%d\n" % i)
    yield directory(b"many")
    for i in range(3000):
        yield plain(b"many/entry%04d" % i, b"%d" % (i % 7))
    path = b"deep"
    yield directory(path)
    for depth in range(2, 60):
        path += b"/level_%02d_" % depth + b"d" * 12
        yield directory(path)
    yield plain(path + b"/at_the_bottom", b"path of depth 60, %d bytes\n" % len(path))


def zoo(seed):
    rng = random.Random(seed)
    yield directory(b"", 0o755, mtime=BASE_TIME)
    yield from metadata_entries()
    yield from xattr_entries(rng)
    yield from special_entries()
    yield from hard_link_entries()
    yield from content_entries(rng)
    yield from name_entries()
