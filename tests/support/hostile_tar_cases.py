# SPDX-License-Identifier: Apache-2.0
"""The tar cases of hostile_tars.py: cases() yields (file name, why, expect, bytes)."""
import gzip
import random
import zlib

from tarwriter import BLK, CHR, DIR, END, HARD, SYM, entry, gnu_long, header, padded, pax

REJECT, CONTAINED = "reject", "contained"
BEFORE = entry(b"before", data=b"harmless\n")
PWNED = b"root::0:0::/:/bin/sh\n"


def path_cases():
    """A name that leads out of the tree, or names no entry."""
    yield "dotdot", "../ at the start of a name", REJECT, entry(b"../escaped", data=PWNED)
    yield "dotdot_deep", "many ../", REJECT, entry(b"../" * 12 + b"tmp/escaped", data=PWNED)
    yield "dotdot_middle", "a/../../b", REJECT, entry(b"a", DIR) + entry(b"a/../../escaped", data=PWNED)
    yield "dotdot_inside", "a/../b stays inside but is not canonical", CONTAINED, entry(b"a/../b", data=b"x")
    yield "dotdot_end", "a name that ends in /..", REJECT, entry(b"a/..", DIR, mode=0o777)
    yield "dotdot_only", "the name ..", REJECT, entry(b"..", DIR, mode=0o777)
    yield "dotdot_pax", "../ in a pax path record", REJECT, entry(b"ok", data=PWNED, records=[(b"path", b"../escaped")])
    yield "dotdot_gnu", "../ in a GNU long name", REJECT, gnu_long(b"../escaped", b"L") + header(b"ok", gnu=True)
    yield "dotdot_prefix", "../ in the ustar prefix field", REJECT, header(b"escaped", tail=b"..")
    yield "absolute", "an absolute name; must become etc/passwd in the tree", CONTAINED, entry(b"/etc/passwd", data=PWNED)
    yield "absolute_slashes", "///; must become etc/passwd in the tree", CONTAINED, entry(b"///etc//passwd", data=PWNED)
    yield "dot", "the name . is the root itself", CONTAINED, entry(b".", DIR, mode=0o700)
    yield "dot_file", "the root as a regular file", REJECT, entry(b".", data=b"x")
    yield "root_symlink", "the root as a symlink", REJECT, entry(b"./", SYM, link=b"/etc")
    yield "root_slash", "the name / as a directory is the root itself", CONTAINED, entry(b"/", DIR, mode=0o700)
    yield "empty_name", "an empty name", REJECT, entry(b"", data=b"x")
    yield "below_file", "an entry below a regular file", REJECT, entry(b"f", data=b"x") + entry(b"f/g", data=b"y")
    yield "below_device", "an entry below a device", REJECT, entry(b"f", CHR, rdev=(1, 3)) + entry(b"f/g", data=b"y")
    yield "slash_at_end", "a regular file whose name ends in /: old tars' way to say directory", CONTAINED, entry(b"d/")
    yield "pax_path_nul", "a NUL in a pax path record", REJECT, entry(b"ok", records=[(b"path", b"a\0b/../../x")])
    yield "pax_link_nul", "a NUL in a pax linkpath record", REJECT, entry(b"l", SYM, records=[(b"linkpath", b"a\0b")])
    yield "pax_path_empty", "an empty pax path record (POSIX: as if absent)", CONTAINED, entry(b"ok", records=[(b"path", b"")])
    yield "long_component", "a component of 256 bytes", REJECT, entry(b"n" * 256)
    yield "long_path", "a path of 5000 bytes", CONTAINED, entry(b"/".join([b"d" * 99] * 50))
    yield "huge_path", "a path of 1 MiB", REJECT, entry(b"d/" * (1 << 19) + b"f")
    yield "long_target", "a symlink's target of 4096 bytes, one more than Linux has", REJECT, entry(b"l", SYM, link=b"t" * 4096)
    yield "empty_target", "a symlink without a target", REJECT, entry(b"l", SYM)


def link_cases():
    shadow = b"../../../../etc/shadow"
    yield ("symlink_write", "a symlink out of the tree, then an entry through it; the OCI way is a directory in its place",
           CONTAINED, entry(b"a", SYM, link=b"/etc") + entry(b"a/passwd", data=PWNED))
    yield ("symlink_write_up", "the same with a relative link", CONTAINED,
           entry(b"a", SYM, link=b"../../..") + entry(b"a/escaped", data=PWNED))
    yield ("symlink_overwrite", "a symlink, then a file of the same name: must replace the link, not write through it",
           CONTAINED, entry(b"a", SYM, link=b"/etc/passwd") + entry(b"a", data=PWNED))
    yield ("symlink_chain", "links through links to ..", CONTAINED, entry(b"a", SYM, link=b"b") +
           entry(b"b", SYM, link=b"c/..") + entry(b"c", SYM, link=b"..") + entry(b"a/escaped", data=PWNED))
    yield ("symlink_loop", "a -> b -> a, then an entry below", CONTAINED, entry(b"a", SYM, link=b"b") +
           entry(b"b", SYM, link=b"a") + entry(b"a/x", data=b"x"))
    yield ("symlink_hardlink", "a hard link to a file through a symlink", REJECT,
           entry(b"a", SYM, link=b"/etc") + entry(b"h", HARD, link=b"a/shadow"))
    yield ("symlink_whiteout", "a whiteout through a symlink: must delete nothing outside", CONTAINED,
           entry(b"a", SYM, link=b"/etc") + entry(b"a/.wh.passwd"))
    yield "hardlink_outside", "a hard link to ../../etc/shadow", REJECT, entry(b"h", HARD, link=shadow)
    yield ("hardlink_absolute", "a hard link to /etc/shadow; must mean the tree's, which is missing", REJECT,
           entry(b"h", HARD, link=b"/etc/shadow"))
    yield "hardlink_missing", "a hard link to an entry that never comes", REJECT, entry(b"h", HARD, link=b"no/such")
    yield ("hardlink_forward", "a hard link to an entry that comes later", CONTAINED,
           entry(b"h", HARD, link=b"later") + entry(b"later", data=b"x"))
    yield "hardlink_self", "a hard link to itself", REJECT, entry(b"h", HARD, link=b"h")
    yield ("hardlink_self_over_file", "a file, then a hard link from its name to its name", CONTAINED,
           entry(b"h", data=b"x") + entry(b"h", HARD, link=b"h"))
    yield ("hardlink_cycle", "two hard links to each other", REJECT,
           entry(b"a", HARD, link=b"b") + entry(b"b", HARD, link=b"a"))
    yield "hardlink_dir", "a hard link to a directory", REJECT, entry(b"d", DIR) + entry(b"h", HARD, link=b"d")
    yield "hardlink_root", "a hard link to .", REJECT, entry(b"h", HARD, link=b".")
    yield "hardlink_empty", "a hard link without a target", REJECT, entry(b"h", HARD)
    yield ("hardlink_replaced", "a file, a link to it, then another file at the first name: two files", CONTAINED,
           entry(b"f", data=b"old") + entry(b"h", HARD, link=b"f") + entry(b"f", data=b"new"))
    yield ("hardlink_chain", "50000 hard links, each to the one before", CONTAINED, entry(b"l0", data=b"x") +
           b"".join(entry(b"l%d" % i, HARD, link=b"l%d" % (i - 1)) for i in range(1, 50_001)))


def entry_cases():
    yield ("duplicates", "one name five times; the last wins: a file \"last\"", CONTAINED,
           entry(b"f", data=b"first") + entry(b"f", DIR) + entry(b"f/x", data=b"x") + entry(b"f", SYM, link=b"x") +
           entry(b"f", data=b"last"))
    yield ("duplicate_dir", "a directory twice: its children stay, the last attributes win", CONTAINED,
           entry(b"d", DIR, mode=0o700) + entry(b"d/x", data=b"x") + entry(b"d", DIR, mode=0o755))
    yield "device_huge", "major and minor beyond what Linux has", REJECT, entry(b"d", BLK, rdev=(2**40, 2**40))
    yield "device_negative", "a negative major", REJECT, entry(b"d", CHR, rdev=(-1, 3))
    yield "unknown_type", "an entry of type V (a GNU volume label) and one of type ?", CONTAINED, header(b"v", b"V") + header(b"q", b"?")
    yield "mode_huge", "mode bits beyond 07777, with a file type inside", CONTAINED, entry(b"f", mode=0o7120777)
    yield "uid_huge", "uid 2^40 in base 256", REJECT, entry(b"f", uid=2**40)
    yield "uid_negative", "a negative uid in base 256", REJECT, entry(b"f", uid=-2)
    yield "mtime_huge", "an mtime of 2^62 s", CONTAINED, entry(b"f", mtime=2**62)
    yield "mtime_garbage", "a pax mtime that is no number", REJECT, entry(b"f", records=[(b"mtime", b"1e9; rm -rf /")])
    yield "whiteout_empty", "a whiteout of nothing: .wh.", REJECT, entry(b".wh.")
    yield "whiteout_dot", "a whiteout of . : .wh..", REJECT, entry(b"d", DIR) + entry(b"d/.wh..")
    yield "whiteout_dotdot", "a whiteout of .. : .wh...", REJECT, entry(b"d", DIR) + entry(b"d/.wh...")
    yield "whiteout_path", "an entry below .wh../", REJECT, entry(b".wh../x", data=b"x")
    yield "whiteout_dir", "a whiteout that is a directory with a child", REJECT, entry(b".wh.d", DIR) + entry(b".wh.d/x", data=b"x")
    yield "whiteout_opaque_dir", ".wh..wh..opq as a directory", REJECT, entry(b".wh..wh..opq", DIR)
    yield "whiteout_data", "a whiteout with content", CONTAINED, entry(b".wh.f", data=b"data")
    yield "whiteout_whiteout", "a whiteout of a whiteout: .wh..wh.x", CONTAINED, entry(b".wh..wh.x")
    yield "whiteout_aufs", "AUFS's own .wh..wh.plnk and .wh..wh.aufs", CONTAINED, entry(b".wh..wh.plnk", DIR) + entry(b".wh..wh.aufs")
    yield "whiteout_device", "an overlayfs whiteout (0:0 device): stays a device or is refused, hides nothing below", CONTAINED, entry(b"f", CHR)
    yield ("xattr_overlay", "overlayfs's own xattrs: must not redirect or hide anything", CONTAINED,
           entry(b"f", data=b"x", xattrs=[(b"trusted.overlay.redirect", b"/../../etc/shadow"), (b"trusted.overlay.metacopy", b"")]) +
           entry(b"d", DIR, xattrs=[(b"user.overlay.opaque", b"y"), (b"trusted.overlay.opaque", b"y")]))
    yield "xattr_name_empty", "an xattr without a name", REJECT, entry(b"f", xattrs=[(b"", b"v")])
    yield "xattr_name_long", "an xattr name of 300 bytes; Linux has 255", REJECT, entry(b"f", xattrs=[(b"user." + b"n" * 295, b"v")])
    yield "xattr_name_nul", "a NUL in an xattr name", REJECT, entry(b"f", xattrs=[(b"user.a\0b", b"v")])
    yield "xattr_namespace", "an xattr in no namespace", CONTAINED, entry(b"f", xattrs=[(b"nowhere", b"v")])
    yield "xattr_value_long", "an xattr value of 65537 bytes; Linux has 65536", REJECT, entry(b"f", xattrs=[(b"user.v", b"v" * 65537)])
    yield "xattr_many", "5000 xattrs on one file", CONTAINED, entry(b"f", xattrs=[(b"user.%d" % i, b"v") for i in range(5000)])


def size_cases():
    yield "size_no_data", "8 GiB - 1 declared, nothing there", REJECT, header(b"f", size=8**11 - 1)
    yield "size_negative", "a negative base-256 size", REJECT, header(b"f", size=-512)
    yield "size_max", "2^63 - 1 in base 256", REJECT, header(b"f", size=2**63 - 1)
    yield "size_all_ff", "a size field of ff bytes", REJECT, header(b"f", size=b"\xff" * 12)
    yield "size_over_64_bits", "a base-256 size beyond 64 bits", REJECT, header(b"f", size=b"\x80\x7f" + b"\xff" * 10)
    yield "size_garbage", "a size field that is no number", REJECT, header(b"f", size=b"twelve bytes")
    yield "size_pax_huge", "a pax size of 10^30", REJECT, pax([(b"size", b"1" + b"0" * 30)]) + header(b"f")
    yield "size_pax_negative", "a pax size of -1", REJECT, pax([(b"size", b"-1")]) + header(b"f")
    yield "size_dir", "a directory with a size but no data: the next header is not data", CONTAINED, header(b"d/", DIR, size=512) + entry(b"after")
    yield "pax_header_huge", "a pax header that declares 8 GiB", REJECT, header(b"x", b"x", size=8**11 - 1)
    yield "pax_header_64_mib", "a pax header of 64 MiB (compressed)", REJECT, pax([(b"comment", bytes(64 << 20))]) + entry(b"f")
    yield "pax_length_lies", "a pax record longer than its header", REJECT, raw_pax(b"99999 path=x\n")
    yield "pax_length_zero", "a pax record of length 0", REJECT, raw_pax(b"0 path=x\n")
    yield "pax_length_garbage", "a pax record without a length", REJECT, raw_pax(b"path=x\n")
    yield "pax_length_20_digits", "a pax length that overflows", REJECT, raw_pax(b"18446744073709551617 path=x\n")
    yield "pax_no_equals", "a pax record without =", REJECT, raw_pax(b"8 abcde\n")
    yield "pax_twice", "two pax headers in a row for one entry", CONTAINED, pax([(b"path", b"a")]) + pax([(b"path", b"b")]) + header(b"c")
    yield "pax_at_end", "a pax header with no entry after it", REJECT, pax([(b"path", b"a")])
    yield "pax_global_path", "a global pax header that names every entry alike", CONTAINED, pax([(b"path", b"../g")], kind=b"g") + entry(b"f")
    yield "gnu_long_huge", "a GNU long name that declares 8 GiB", REJECT, header(b"././@LongLink", b"L", size=8**11 - 1, gnu=True)
    yield "sparse_offset_huge", "a sparse map beyond the real size", REJECT, sparse(4096, b"1\n99999999999\n512\n")
    yield "sparse_negative", "a negative offset in a sparse map", REJECT, sparse(4096, b"1\n-512\n512\n")
    yield "sparse_overlap", "overlapping sparse segments", REJECT, sparse(4096, b"2\n0\n512\n256\n512\n")
    yield "sparse_count", "a sparse map that declares 10^18 segments", REJECT, sparse(4096, b"1" + b"0" * 18 + b"\n")
    yield "sparse_real_size", "a real size of 2^62 bytes, all hole: 8 EiB must not be hashed for hours", REJECT, sparse(2**62, b"0\n")


def raw_pax(data):
    return header(b"x", b"x", size=len(data)) + padded(data) + entry(b"f")


def sparse(real_size, table):
    data = padded(table) + b"s" * 512
    return entry(b"f", data=data, records=[(b"GNU.sparse.major", b"1"), (b"GNU.sparse.minor", b"0"),
                                           (b"GNU.sparse.name", b"f"), (b"GNU.sparse.realsize", b"%d" % real_size)])


def depth_cases():
    """Depth is bounded by a rule of the reader's, or it ends in recursion without bound."""
    yield "depth_bomb", "one path of 200,000 directories", REJECT, entry(b"d/" * 200_000, DIR)
    yield ("deep_tree", "2000 nested directories, each an entry", CONTAINED,
           b"".join(entry(b"d/" * depth, DIR) for depth in range(1, 2001)))
    yield ("deep_dotdot", "a/../ 100,000 times", REJECT, entry(b"a/../" * 100_000 + b"f"))


def good_archive():
    return (BEFORE + entry(b"d", DIR, mode=0o755) + entry(b"d/data", data=bytes(range(256)) * 8) +
            entry(b"n" * 150, data=b"pax name", xattrs=[(b"user.x", b"value")]) + entry(b"d/link", SYM, link=b"data") +
            gnu_long(b"g" * 130, b"L") + header(b"g" * 100, gnu=True, size=3) + padded(b"gnu") +
            entry(b"hard", HARD, link=b"d/data") + END)


def damaged_cases():
    good = good_archive()
    yield "raw_good.tar", "nothing wrong: shows that the cut_ and flip_ cases fail for their damage", CONTAINED, good
    for at in (1, 511, 512 + 4, 1024 + 100, 2048, 2048 + 700, 4096 + 10, 5120 + 20, 6144 + 3, len(good) - len(END) - 10):
        yield f"cut_{at:05d}.tar", f"cut after {at} bytes", REJECT, good[:at]
    yield "cut_no_end.tar", "all entries, but not the two zero blocks", CONTAINED, good[:-len(END)]
    rng = random.Random(1)
    for i in range(12):
        bit = rng.randrange((len(good) - len(END)) * 8)
        flipped = bytearray(good)
        flipped[bit // 8] ^= 1 << bit % 8
        yield f"flip_{i:02d}.tar", f"bit {bit} flipped", CONTAINED, bytes(flipped)
    yield "raw_empty.tar", "an empty file", CONTAINED, b""
    yield "raw_zeros.tar", "nothing but zeros: a tar without entries", CONTAINED, bytes(10240)
    yield "raw_noise.tar", "noise", REJECT, rng.randbytes(4096)
    yield "raw_garbage_after.tar", "noise after the end blocks", CONTAINED, good + rng.randbytes(5000)
    yield "raw_two_archives.tar", "a second archive after the first one's end", CONTAINED, good + entry(b"second", data=b"2") + END
    yield "raw_checksum.tar", "a wrong header checksum", REJECT, BEFORE + b"X" + entry(b"f")[1:] + END
    packed = gzip.compress(good, mtime=0)
    yield "cut_gzip.tar.gz", "a gzip stream cut in half", REJECT, packed[:len(packed) // 2]
    yield "raw_gzip_crc.tar.gz", "a gzip stream with a wrong CRC", REJECT, packed[:-8] + b"\0\0\0\0" + packed[-4:]
    yield "raw_gzip_garbage_after.tar.gz", "noise after the gzip stream", CONTAINED, packed + rng.randbytes(600)
    yield "raw_gzip_two_members.tar.gz", "the archive in two gzip members: one stream", CONTAINED, (
        gzip.compress(good[:1000], mtime=0) + gzip.compress(good[1000:], mtime=0))
    yield "raw_gzip_bomb.tar.gz", "1 GiB of zeros in a file, 1 MB packed", CONTAINED, gzip_bomb()
    yield "raw_gzip_nested.tar.gz", "a gzip stream in a gzip stream", REJECT, gzip.compress(packed, mtime=0)


    zstd = zstd_frame(BEFORE)
    yield "raw_zstd_bomb.tar.zst", "1 GiB of zeros in a file, 32 kB packed", CONTAINED, zstd_frame(
        BEFORE + header(b"zeros", size=1 << 30), zero_blocks=1 << 13)
    yield "cut_zstd.tar.zst", "a zstd frame cut in half", REJECT, zstd[:len(zstd) // 2]
    yield "raw_zstd_window.tar.zst", "a zstd frame that asks for a window of 2^41 bytes", REJECT, zstd[:5] + b"\xf8" + zstd[6:]


def zstd_frame(data, zero_blocks=0):
    """A frame of one raw block, then 128 KiB RLE blocks of zeros, then the tar's end; RFC 8878, section 3.1.1."""
    def block(kind, size, content, last=0):
        return (last | kind << 1 | size << 3).to_bytes(3, "little") + content

    return (b"\x28\xb5\x2f\xfd\x00\x38" + block(0, len(data), data) + block(1, 1 << 17, b"\0") * zero_blocks +
            block(0, len(END), END, last=1))


def gzip_bomb():
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    parts = [packer.compress(BEFORE + header(b"zeros", size=1 << 30))]
    parts += [packer.compress(bytes(1 << 20)) for _ in range(1 << 10)]
    return b"".join(parts) + packer.compress(END) + packer.flush()


def cases():
    for group in (path_cases, link_cases, entry_cases, size_cases, depth_cases):
        for name, why, expect, data in group():
            archive = BEFORE + data + END
            if len(archive) > 1 << 20:
                yield f"{name}.tar.gz", why, expect, gzip.compress(archive, mtime=0)
            else:
                yield f"{name}.tar", why, expect, archive
    yield from damaged_cases()
