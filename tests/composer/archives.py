#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Archives that GNU tar does not write, for the tests of composer/sources.

    archives.py OUTDIR      writes one file per case, named like the case
"""
import bz2
import gzip
import io
import os
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../support"))
from tarwriter import CHR, DIR, END, HARD, REG, SYM, entry, gnu_long, header, padded, pax  # noqa: E402


def python(members, form=tarfile.PAX_FORMAT):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=form) as archive:
        for name, fields in members:
            info = tarfile.TarInfo(name)
            data = fields.pop("data", b"")
            info.size = len(data)
            for key, value in fields.items():
                setattr(info, key, value)
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


def record(key, value):
    return entry(b"f", records=[(key, value)]) + END


STAR_TAIL = b"p" * 131 + b"00000000000\0" * 2 + bytes(8) + b"tar\0"
GOOD = entry(b"d", DIR) + entry(b"d/f", data=b"content\n") + END
CASES = {
    "python_pax": lambda: python([
        ("nfd-e\u0301", {"data": b"decomposed"}), ("nfc-\u00e9", {}), ("raw-\udcff\udcfe", {}),
        ("link", {"type": tarfile.SYMTYPE, "linkname": "u\u0308"}),
        ("long/" + "n" * 200, {"data": b"x"}), ("big", {"uid": 2**32 - 1, "gid": 2**31})]),
    "python_gnu": lambda: python([("long/" + "n" * 200, {"data": b"x"}), ("old", {"mtime": -5})], tarfile.GNU_FORMAT),
    "python_ustar": lambda: python([("p" * 120 + "/" + "n" * 90, {"data": b"x"})], tarfile.USTAR_FORMAT),
    "star": lambda: header(b"name", tail=STAR_TAIL) + END,
    "v7": lambda: v7(header(b"d/")) + v7(header(b"f", size=2)) + padded(b"hi") + END,
    "times": lambda: b"".join(entry(b"t%d" % i, records=[(b"mtime", t)]) for i, t in enumerate(
        (b"0", b"1.5", b"-1.5", b"-0.25", b"-2", b"1.0000000019", b"-1.0000000001", b"1.", b"+3.1"))) + END,
    "libarchive_xattrs": lambda: entry(b"f", records=[(b"LIBARCHIVE.xattr.user.a%3Db%20c", b"AP8KPQ"),
                                                      (b"LIBARCHIVE.xattr.user.empty", b"")]) + END,
    "schily_xattrs": lambda: entry(b"f", xattrs=[(b"user.bin", b"\0\n=\xff"), (b"user.a%3Db%25", b"v"),
                                                 (b"user.100%", b"p")]) + END,
    "acl_numeric": lambda: entry(b"f", records=[(b"SCHILY.acl.access", b"user::rw-,user:1234:r--,group::r-x,mask::r-x,"
                                                 b"other::---,group:nogroup:-wx:65534"),
                                                (b"SCHILY.acl.default", b"user::rwx\ngroup::r-x\nother::r-x\n")]) + END,
    "acl_trivial": lambda: record(b"SCHILY.acl.access", b"user::rw-,group::r--,other::r--"),
    "acl_name": lambda: record(b"SCHILY.acl.access", b"user::rw-,user:lisa:r--,group::r-x,mask::r-x,other::---"),
    "acl_no_mask": lambda: record(b"SCHILY.acl.access", b"user::rw-,user:5:r--,group::r-x,other::---"),
    "acl_junk": lambda: record(b"SCHILY.acl.access", b"user::rw-,nonsense"),
    "global": lambda: pax([(b"uid", b"77"), (b"comment", b"x")], kind=b"g") + entry(b"a") +
              entry(b"b", records=[(b"uid", b"5")]) + pax([(b"uid", b"")], kind=b"g") + entry(b"c", uid=3) + END,
    "volume_label": lambda: header(b"label", b"V") + GOOD,
    "dumpdir": lambda: header(b"d", b"D", size=5, gnu=True) + padded(b"Yf\0\0\0") + entry(b"d/f", data=b"x") + END,
    "directory_with_size": lambda: header(b"d/", DIR, size=512) + entry(b"after") + END,
    "link_with_size": lambda: entry(b"f", data=b"x") + header(b"h", HARD, size=700, link=b"f") + entry(b"z") + END,
    "unknown_type": lambda: header(b"q", b"?") + END,
    "multi_volume": lambda: header(b"m", b"M") + END,
    "slash_with_data": lambda: header(b"d/", size=1) + padded(b"x") + END,
    "no_end": lambda: GOOD[:-len(END)],
    "cut_data": lambda: entry(b"f", data=b"x" * 5000)[:3000],
    "lone_zero_block": lambda: entry(b"a") + bytes(512) + entry(b"b") + END,
    "trailing_noise": lambda: GOOD + b"noise" * 300,
    "checksum": lambda: b"X" + GOOD[1:],
    "many_headers": lambda: pax([(b"comment", b"x")]) * 17 + entry(b"f") + END,
    "uid_33_bits": lambda: record(b"uid", b"4294967296"),
    "bad_mtime": lambda: record(b"mtime", b"soon"),
    "two_members.gz": lambda: gzip.compress(GOOD[:700]) + gzip.compress(GOOD[700:]),
    "garbage_after.gz": lambda: gzip.compress(GOOD) + b"garbage",
    "zeros_after.gz": lambda: gzip.compress(GOOD) + bytes(1000),
    "bad_crc.gz": lambda: flipped(gzip.compress(GOOD), -8),
    "cut.gz": lambda: gzip.compress(entry(b"f", data=os.urandom(3000)) + END)[:-20],
    "good.bz2": lambda: bz2.compress(GOOD),
    "good": lambda: GOOD,
    "empty": lambda: b"",
    "whiteouts": lambda: entry(b".wh.gone") + entry(b"d/.wh..wh..opq") + entry(b"d/new", data=b"1") + entry(b"0:0", CHR) +
                 entry(b".wh..wh.plnk", DIR) + entry(b".wh..wh.plnk/1.2", data=b"x") + entry(b".wh..wh.aufs") + END,
    "whiteout_nothing": lambda: entry(b"d/.wh.") + END,
    "whiteout_dotdot": lambda: entry(b"d/.wh...") + END,
    "whiteout_inside": lambda: entry(b".wh.d/x") + END,
    "whiteout_dir": lambda: entry(b".wh.d", DIR) + END,
    "base": lambda: entry(b"gone", data=b"x") + entry(b"d", DIR) + entry(b"d/old", data=b"y") + END,
    "old_sparse_overlap": lambda: old_sparse([(0, 512), (256, 512)], 4096),
    "old_sparse_outside": lambda: old_sparse([(4096, 1024)], 4096),
    "old_sparse_short": lambda: old_sparse([(0, 512)], 4096),
    "sparse_2.0": lambda: entry(b"f", records=[(b"GNU.sparse.major", b"2"), (b"GNU.sparse.minor", b"0")]) + END,
    "sparse_odd_map": lambda: record(b"GNU.sparse.map", b"0,1,2"),
}


def v7(block):
    from tarwriter import checksum
    return checksum(block[:156] + b"\0" + block[157:257] + bytes(255))


def flipped(data, at):
    changed = bytearray(data)
    changed[at] ^= 1
    return bytes(changed)


def old_sparse(segments, real_size):
    from tarwriter import number
    table = b"".join(number(n, 12) for segment in segments for n in segment)
    tail = bytes(41) + table.ljust(96, b"\0") + b"\0" + number(real_size, 12)
    return header(b"f", b"S", size=1024, gnu=True, tail=tail) + padded(b"s" * 1024) + END


if __name__ == "__main__":
    for name, make in CASES.items():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(make())
