# SPDX-License-Identifier: Apache-2.0
"""Environments with shared layers, and what every file of them holds."""
import hashlib
import os
import random
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../keeper"))
sys.path.insert(0, os.path.join(HERE, "../e2e"))
import harness  # noqa: E402
import load  # noqa: E402

DATA = ("a", "b", "c")
FILES = 8
VARIANTS = 4
SAFE = re.compile(r"[\w./-]+")


class Env:
    def __init__(self, name, layers):
        self.name, self.layers = name, layers
        self.can_run = "base" in layers
        self.digest = None
        self.contents = {}  # path below the root, as bytes -> SHA-256 of regular files, None of others

    def manifest(self, sources):
        text = f'version = 1\nname = "{self.name}"\n'
        for layer in self.layers:
            target = f'target = "/data/{layer}"\n' if layer in DATA else ""
            text += f'[[layer]]\nname = "soak/{layer}"\nfrom = "{sources[layer]}"\n{target}'
        return text

    def files(self, below=b""):
        """Regular files with names that a shell takes as they are."""
        return sorted(path for path, digest in self.contents.items()
                      if digest and path.startswith(below) and SAFE.fullmatch(os.fsdecode(path)))


def all_envs():
    envs = [Env("plain", ["base"]), Env("data", ["a", "c"]), Env("ab", ["base", "a", "b"]), Env("bc", ["base", "b", "c"]),
            Env("abc", ["base", "a", "b", "c"])]
    return envs + [Env(f"variant{i}", ["base", "a", f"v{i}"]) for i in range(VARIANTS)]


def make_sources(world, seed):
    """layer -> source. Data is half random, 4 KiB each; a variant replaces a file of another layer and adds some."""
    chance = random.Random(seed)
    sources = {"base": f"oci:{harness.small_image()}:v3"}
    for layer in DATA:
        sizes = [int(chance.uniform(4, 60) ** 2.5) * 64 for _ in range(FILES)]
        sources[layer] = write_layer(world, layer, {f"f{i:02}": content(chance, size) for i, size in enumerate(sizes)})
    for i in range(VARIANTS):
        files = {f"srv/v{n}": content(chance, chance.randint(1, 50_000)) for n in range(3)}
        files["data/a/f00"] = content(chance, 3000)
        sources[f"v{i}"] = write_layer(world, f"v{i}", files)
    return sources


def content(chance, size):
    return b"".join(chance.randbytes(4096) + bytes([chance.randrange(256)]) * 4096 for _ in range(size // 8192 + 1))[:size]


def write_layer(world, layer, files):
    root = world.make_dir("sources", layer)
    for name, data in files.items():
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
    return f"dir:{root}"


def contents_of(root):
    """As Env.contents, of a mounted environment."""
    root = os.fsencode(root)
    found = {}
    for path in load.paths_below(root):
        is_file = os.path.isfile(path) and not os.path.islink(path)
        found[os.path.relpath(path, root)] = load.file_digest(path, True) if is_file else None
    return found


def expect_sources(env, world):
    """That a mounted environment has the bytes that its sources have; those above win."""
    wanted = {}
    for layer in env.layers:
        if layer == "base":
            continue
        root = world.path("sources", layer)
        target = os.path.join("data", layer) if layer in DATA else ""
        for directory, _, names in os.walk(root):
            for name in names:
                path = os.path.join(directory, name)
                below = os.path.normpath(os.path.join(target, os.path.relpath(path, root)))
                with open(path, "rb") as file:
                    wanted[os.fsencode(below)] = hashlib.sha256(file.read()).hexdigest()
    wrong = [path for path, digest in wanted.items() if env.contents.get(path) != digest]
    if wrong:
        raise AssertionError(f"{env.name}: other bytes than its sources: {wrong}")
