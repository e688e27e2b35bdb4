# SPDX-License-Identifier: Apache-2.0
"""The trees that the benchmarks work on."""

import os
import random
import subprocess

# Programs, libraries of many small files, text: what an image holds. A copy, so that both sides read the same disk.
REAL_PARTS = ("/usr/bin", "/usr/include", "/usr/lib/python3", "/usr/lib/python3.11", "/usr/share/doc")
BIG_FILE = "big.bin"
BIG_BYTES = 256 << 20
TINY_BIG_BYTES = 2 << 20
SEED = 20240501


def prepare(bench):
    """The tree's path; made once. Adds what it is to the parameters."""
    if bench.tree_argument:
        bench.parameters["tree"] = bench.tree_argument
        return os.path.abspath(bench.tree_argument)
    tree = bench.path("tree-tiny" if bench.tiny else "tree")
    bench.parameters["tree"] = "synthetic, 300 files" if bench.tiny else f"{' '.join(REAL_PARTS)} + {BIG_FILE}"
    if not os.path.exists(tree):
        made = tree + ".tmp"
        subprocess.run(["rm", "-rf", made], check=True)
        os.makedirs(made)
        if bench.tiny:
            make_synthetic(made)
        else:
            parts = [part[1:] for part in REAL_PARTS if os.path.exists(part)]
            subprocess.run(["cp", "-a", "--parents", *parts, made], cwd="/", check=True)
        make_big(os.path.join(made, BIG_FILE), TINY_BIG_BYTES if bench.tiny else BIG_BYTES)
        os.rename(made, tree)
    return tree


def make_synthetic(root):
    """300 files of 0 to 64 KiB of words, in 20 directories, and a few symlinks."""
    generator = random.Random(SEED)
    words = [bytes(generator.choices(b"abcdefghijklmnopqrstuvwxyz", k=generator.randint(2, 9))) for _ in range(500)]
    for number in range(300):
        folder = os.path.join(root, f"dir{number % 20:02}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"file{number:03}"), "wb") as file:
            size = int(65536 ** generator.random()) - 1
            file.write(b" ".join(generator.choices(words, k=size // 4))[:size])
        if number % 30 == 0:
            os.symlink(f"file{number:03}", os.path.join(folder, f"link{number:03}"))


def make_big(path, size):
    """A file that LZ4 halves: each 4 KiB block is half random, half zero."""
    generator = random.Random(SEED + 1)
    with open(path, "wb") as file:
        for _ in range(0, size, 1 << 20):
            file.write(b"".join(generator.randbytes(2048) + bytes(2048) for _ in range(256)))
