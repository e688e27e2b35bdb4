#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One process of a mixed load: load.py ROOT EXPECTED SECONDS SEED. Walks ROOT and reads files in a random order until
the time is over, and compares everything with EXPECTED (expected_of() as JSON). Reads go past the page cache every
second time, so that the daemon is asked. Prints what was done; exits 1 at the first failed or wrong answer."""
import hashlib
import json
import mmap
import os
import random
import stat
import sys
import time

BLOCK = 64 << 10


def file_digest(path, direct):
    """SHA-256 of a file; `direct` reads past the page cache."""
    digest = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
    try:
        buffer = mmap.mmap(-1, BLOCK)
        offset = 0
        while n := os.preadv(fd, [buffer], offset):
            digest.update(buffer[:n])
            offset += n
    finally:
        os.close(fd)
    return digest.hexdigest()


DEVICE = 7  # where it is among the facts


def facts_of(path):
    """What must not change: type and mode, links, owner, size, times, inode number and device."""
    st = os.lstat(path)
    size = 0 if stat.S_ISDIR(st.st_mode) else st.st_size
    facts = [st.st_mode, st.st_nlink, st.st_uid, st.st_gid, size, st.st_mtime_ns, st.st_ino, st.st_dev]
    if stat.S_ISLNK(st.st_mode):
        facts.append(os.fsencode(os.readlink(path)).hex())
    return facts


def paths_below(root):
    found = []
    for directory, names, files in os.walk(root, onerror=fail):
        found += [os.path.join(directory, name) for name in [*names, *files]]
    return found


def fail(error):
    raise error


def expected_of(root):
    """path below the root, as hexadecimal bytes -> [facts, digest or null]."""
    expected = {}
    for path in paths_below(os.fsencode(root)):
        facts = facts_of(path)
        digest = file_digest(path, False) if stat.S_ISREG(facts[0]) else None
        expected[os.path.relpath(path, os.fsencode(root)).hex()] = [facts, digest]
    return expected


def run(root, expected, seconds, seed):
    dice = random.Random(seed)
    names = sorted(expected)
    files = [name for name in names if expected[name][1]]
    end = time.monotonic() + seconds
    walks = reads = stats = 0
    while time.monotonic() < end:
        if dice.random() < 0.1:
            found = sorted(os.path.relpath(path, root).hex() for path in paths_below(root))
            if found != names:
                return f"a walk found other names: {set(found) ^ set(names)}"
            walks += 1
        for name in dice.sample(names, min(20, len(names))):
            if facts_of(os.path.join(root, bytes.fromhex(name))) != expected[name][0]:
                return f"{bytes.fromhex(name)}: other attributes"
            stats += 1
        for name in dice.sample(files, min(10, len(files))):
            if file_digest(os.path.join(root, bytes.fromhex(name)), dice.random() < 0.5) != expected[name][1]:
                return f"{bytes.fromhex(name)}: WRONG BYTES"
            reads += 1
    print(json.dumps({"walks": walks, "stats": stats, "reads": reads}))
    return None


def main():
    root, expected, seconds, seed = sys.argv[1:]
    with open(expected, encoding="ascii") as file:
        problem = run(os.fsencode(root), json.load(file), float(seconds), int(seed))
    if problem:
        print(problem, file=sys.stderr)
        sys.exit(1)


if __name__ == "__main__":
    main()
