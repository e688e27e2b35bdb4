# SPDX-License-Identifier: Apache-2.0
"""A tree of the size of a real image, as three layers and as the one directory that they make."""

import hashlib
import os
import shutil
import subprocess

import trees
from measuring import Missing

# Taken in this order until there is enough: programs, libraries, headers, then many small files.
PARTS = ("/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib/python3", "/usr/include", "/usr/share", "/usr/lib", "/usr/local")
MIN_ENTRIES = 80000
MIN_BYTES = 2000 << 20
TINY_ENTRIES = 300
BIG_FILE = "srv/big.bin"
BIG_BYTES = 128 << 20
TINY_BIG_BYTES = 2 << 20
MANIFEST = """version = 1
name = "corpus"
tag = "1"
[[layer]]
name = "corpus/base@1"
from = "dir:base"
[[layer]]
name = "corpus/middle@1"
from = "dir:middle"
[[layer]]
name = "corpus/top@1"
from = "dir:top"
"""
LAYERS = ("base", "middle", "top")


def prepare(bench):
    """The corpus' folder: whole/ is what base/, middle/ and top/ make, env.toml composes them. Made once."""
    corpus = bench.path("corpus-tiny" if bench.tiny else "corpus")
    if not os.path.exists(corpus):
        made = corpus + ".tmp"
        subprocess.run(["rm", "-rf", made], check=True)
        os.makedirs(os.path.join(made, "whole", "srv"))
        fill(bench, os.path.join(made, "whole"))
        split(made)
        with open(os.path.join(made, "env.toml"), "w", encoding="utf-8") as file:
            file.write(MANIFEST)
        os.rename(made, corpus)
    entries, size = measure(os.path.join(corpus, "whole"))
    bench.parameters.update({"entries": entries, "bytes": size, "layers": len(LAYERS)})
    return corpus


def fill(bench, whole):
    if bench.tiny:
        trees.make_synthetic(whole)
    else:
        for part in PARTS:
            if os.path.exists(part):
                subprocess.run(["cp", "-a", "--parents", part[1:], whole], cwd="/", check=True)
            entries, size = measure(whole)
            if entries >= MIN_ENTRIES and size >= MIN_BYTES:
                break
        else:
            raise Missing(f"the usr trees here hold {entries} entries and {size} bytes; {MIN_ENTRIES} and {MIN_BYTES} are wanted")
    trees.make_big(os.path.join(whole, BIG_FILE), TINY_BIG_BYTES if bench.tiny else BIG_BYTES)


def split(made):
    """Deals the files of whole/ out to the layers by their names, so that nearly every directory is stitched of three.
    Every layer has the directories that it needs, with the attributes of the whole."""
    whole = os.path.join(made, "whole")
    lists = {layer: [] for layer in LAYERS}
    for parent, folders, files in os.walk(whole):
        for name in folders + files:
            path = os.path.relpath(os.path.join(parent, name), whole)
            if os.path.isdir(os.path.join(whole, path)) and not os.path.islink(os.path.join(whole, path)):
                lists["base"].append(path)
            else:
                lists[layer_of(path)].append(path)
    for layer, paths in lists.items():
        target = os.path.join(made, layer)
        os.makedirs(target)
        copy_with_tar(whole, target, with_parents(paths))
        for parent, _, _ in os.walk(target, topdown=False):  # tar does not get the times of all directories right
            shutil.copystat(os.path.join(whole, os.path.relpath(parent, target)), parent)


def layer_of(path):
    """Six in ten files belong to the base, three to the middle, one to the top."""
    number = hashlib.sha256(os.fsencode(path)).digest()[0] % 10
    return "base" if number < 6 else "middle" if number < 9 else "top"


def with_parents(paths):
    """The paths and all their parent directories, parents first."""
    wanted = set()
    for path in paths:
        while path and path not in wanted:
            wanted.add(path)
            path = os.path.dirname(path)
    return sorted(wanted)


def copy_with_tar(source, target, paths):
    names = b"\0".join(os.fsencode(path) for path in paths)
    with subprocess.Popen(["tar", "-C", source, "--no-recursion", "--null", "--numeric-owner", "--format=pax", "--xattrs",
                           "-T", "-", "-cf", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as packer:
        unpacker = subprocess.Popen(["tar", "-C", target, "--numeric-owner", "--xattrs", "-xpf", "-"], stdin=packer.stdout)
        packer.stdin.write(names)
        packer.stdin.close()
        if unpacker.wait() != 0 or packer.wait() != 0:
            raise Missing("tar could not copy the corpus")


def measure(root):
    entries = size = 0
    for parent, folders, files in os.walk(root):
        entries += len(folders) + len(files)
        size += sum(os.lstat(os.path.join(parent, name)).st_size for name in files)
    return entries, size
