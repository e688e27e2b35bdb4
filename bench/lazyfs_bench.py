# SPDX-License-Identifier: Apache-2.0
"""lazyfs against ext4 on a tree of the size of a real image: what docs/performance.md promises, in one run."""

import os

import corpus
from measuring import Case, Sample
from mounts import Lazy, Overlay, Plain

WHAT = "lazyfs in every mode against ext4, bare and below an overlay: the table of docs/performance.md"

SEED = "7"
WARM_ROUNDS = 2  # of which the last is counted


def run(bench):
    bench.need_root()
    folder = corpus.prepare(bench)
    bench.dsec("compose", "-f", os.path.join(folder, "env.toml"))
    whole = os.path.join(folder, "whole")
    bench.parameters["ext4 side on"] = bench.call("stat", "-f", "-c", "%T", whole).strip()
    layers, merged = (bench.daemon_with(name, f'merged_roots = "{roots}"\n') for name, roots in (("layers", "off"), ("merged", "always")))
    bare = [Plain("ext4", whole), *(Lazy(bench, mode, "corpus:1", daemon=layers) for mode in ("tree", "objects")),
            Lazy(bench, "objects", "corpus:1", "merged", merged)]
    rings = with_rings(bench)
    overlaid = [Overlay(bench, target) for target in bare]
    overlaid_rings = [Overlay(bench, target) for target in rings]
    for target in overlaid + overlaid_rings + bare + rings:
        bench.undo.append(target.down)
    can_drop = bench.drop_caches()
    if not can_drop:
        print("skipped: cold cases: /proc/sys/vm/drop_caches cannot be written")
    for title, targets, operation, heat, bars in cases(bench, bare, overlaid):
        if heat == "cold":  # warm, no request is made, however it would come
            targets = targets + (rings if targets is bare else overlaid_rings)
        if heat == "warm" or can_drop:
            bench.add(measure(bench, title, targets, operation, heat, bars))


def with_rings(bench):
    """Tree mode with requests through io_uring, where this kernel offers it now."""
    parameter = "/sys/module/fuse/parameters/enable_uring"
    try:
        with open(parameter, encoding="ascii") as file:
            offered = file.read(1) == "Y"
    except OSError:
        offered = False
    if not offered:
        print(f"skipped: io_uring: {parameter} does not say Y")
        return []
    return [Lazy(bench, "tree", "corpus:1", "io_uring", bench.daemon_with("rings", 'transport = "io_uring"\n'))]


def cases(bench, bare, overlaid):
    """(title, targets, probe's arguments for a root, warm or cold, bar) for each row."""
    reads = "200" if bench.tiny else "20000"

    def walk(verb):
        return lambda root: (verb, root)

    def big(verb, *rest):
        return lambda root: (verb, os.path.join(root, corpus.BIG_FILE), *rest)

    yield "find, warm", bare, walk("find"), "warm", 1.0
    yield "find -ls, warm", bare, walk("stat"), "warm", 1.5
    yield "find -ls, cold", bare, walk("stat"), "cold", 1.0
    yield "find -ls, cold, overlay", overlaid, walk("stat"), "cold", 1.1
    yield "find, cold", bare, walk("find"), "cold", None
    yield "sequential read, warm", bare, big("seq"), "warm", 1 / 0.95
    yield "random 4K, warm, overlay", overlaid, big("rand", reads, SEED), "warm", 1.5
    yield "page fault, warm, overlay", overlaid, big("fault", reads, SEED), "warm", 2.0
    yield "all files, cold", bare, walk("read"), "cold", 1.0
    yield "sequential read, cold", bare, big("seq"), "cold", None
    yield "random 4K, cold", bare, big("rand", reads, SEED), "cold", 1.5


def measure(bench, title, targets, operation, heat, bar):
    """Alternates between the targets. Cold: a new daemon, dropped caches. Warm: after rounds that are not counted."""
    samples = {target.name: [] for target in targets}
    for _ in range(max(2, bench.repeat // 2) if heat == "cold" else bench.repeat):
        for target in targets:
            if heat == "cold":
                for other in targets:
                    other.down()
                bench.stop_daemon()
                target.up()
                bench.drop_caches()
            else:
                target.up()
                for _ in range(WARM_ROUNDS - 1):
                    bench.probe(*operation(target.path))
            work = bench.probe(*operation(target.path))
            samples[target.name].append(Sample(work["ns"][0] / 1e6, work["hash"]))
    for target in targets:
        target.down()
    return Case(title, samples, bytes=work["bytes"], operations=work["operations"], bar=bar)
