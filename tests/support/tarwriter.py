# SPDX-License-Identifier: Apache-2.0
"""Tar archives byte by byte, for fixtures that Python's tarfile is too polite to write.

Names, link targets and pax values are bytes and are written as they are. Nothing is checked, so that hostile
archives can be made. Formats: POSIX.1-2017 pax interchange format; GNU tar manual, appendix "Tar Internals".
"""
BLOCK = 512
END = bytes(2 * BLOCK)
REG, HARD, SYM, CHR, BLK, DIR, FIFO = (str(i).encode() for i in range(7))


def number(value, width):
    """Octal with a NUL at its end where it fits, else GNU's base-256 (negative numbers too)."""
    if 0 <= value < 8 ** (width - 1):
        return b"%0*o\0" % (width - 1, value)
    raw = value.to_bytes(width, "big", signed=True)
    return bytes([raw[0] | 0x80]) + raw[1:]


def checksum(block):
    """The header block with its checksum field made right."""
    total = sum(block[:148]) + 8 * 0x20 + sum(block[156:])
    return block[:148] + b"%06o\0 " % total + block[156:]


def header(name, kind=REG, *, size=0, mode=0o644, uid=0, gid=0, mtime=0, link=b"", rdev=(0, 0), gnu=False, tail=b""):
    """One 512-byte header. size, mtime and the like may also be raw field bytes; tail is what follows rdev."""
    def field(value, width):
        return value.ljust(width, b"\0")[:width] if isinstance(value, bytes) else number(value, width)

    block = b"".join((name[:100].ljust(100, b"\0"), field(mode, 8), field(uid, 8), field(gid, 8), field(size, 12),
                      field(mtime, 12), b" " * 8, kind, link[:100].ljust(100, b"\0"),
                      b"ustar  \0" if gnu else b"ustar\00000", bytes(64),
                      field(rdev[0], 8), field(rdev[1], 8), tail))
    return checksum(block.ljust(BLOCK, b"\0"))


def padded(data):
    return data + bytes(-len(data) % BLOCK)


def pax_record(key, value):
    """b"LENGTH key=value\\n", where LENGTH counts itself."""
    rest = len(key) + len(value) + 3
    length = rest + len(str(rest))
    length = rest + len(str(length))
    return b"%d %s=%s\n" % (length, key, value)


def pax(records, name=b"PaxHeaders/x", kind=b"x"):
    """An extended header (kind "g": global) for the next entry; records is a list of (key, value)."""
    data = b"".join(pax_record(k, v) for k, v in records)
    return header(name, kind, size=len(data)) + padded(data)


def gnu_long(value, kind):
    """GNU's long name (kind L) or long link (kind K) for the next entry."""
    return header(b"././@LongLink", kind, size=len(value) + 1, gnu=True) + padded(value + b"\0")


def entry(name, kind=REG, data=b"", *, xattrs=(), records=(), **fields):
    """A whole entry in pax form: what does not fit in the plain header goes into an extended one."""
    records = list(records) + [(b"SCHILY.xattr." + k, v) for k, v in xattrs]
    if len(name) > 100:
        records.append((b"path", name))
    if len(fields.get("link", b"")) > 100:
        records.append((b"linkpath", fields["link"]))
    fields.setdefault("size", len(data))
    return (pax(records) if records else b"") + header(name, kind, **fields) + padded(data)
