# SPDX-License-Identifier: Apache-2.0
"""How fast a directory becomes a stored environment, against tools that make an image of it."""

import os

import trees
from measuring import Case, Sample

WHAT = "dsec compose of a directory, against mkfs.erofs -zlz4 and mksquashfs -comp lz4"

# The chunk that content-defined chunking aims at, and its upper limit: mksquashfs with both as block size.
BLOCK_SIZES = (65536, 262144)


def run(bench):
    mkfs_erofs = bench.need_program("mkfs.erofs", "erofs-utils")
    mksquashfs = bench.need_program("mksquashfs", "squashfs-tools")
    tree = trees.prepare(bench)
    work = bench.probe("read", tree)  # also warms the page cache, for all alike
    bench.parameters.update(files=work["operations"], bytes=work["bytes"])

    image = bench.path("image")
    peers = {"mkfs.erofs -zlz4": [mkfs_erofs, "-zlz4", image, tree]}
    for size in BLOCK_SIZES:
        peers[f"mksquashfs lz4 -b {size >> 10}K"] = [mksquashfs, tree, image, "-comp", "lz4", "-b", str(size), "-noappend",
                                                     "-quiet", "-no-progress"]
    times = {name: [] for name in (*peers, "dsec compose", "dsec compose again")}
    sizes = {}
    for _ in range(bench.repeat):
        for name, command in peers.items():
            times[name].append(timed_image(bench, image, command, work["hash"]))
            sizes[name] = os.path.getsize(image)
        bench.remove("store")
        # "again" finds every chunk in the store: what a rebuilt layer costs that changed little.
        for name in ("dsec compose", "dsec compose again"):
            compose = [bench.need_program("dsec"), "compose", "--from", f"dir:{tree}", "--name", "bench"]
            times[name].append(Sample(bench.time(*compose).ms, work["hash"]))
        sizes["dsec compose"] = size_of(bench.path("store"))
    bench.parameters["stored"] = ", ".join(f"{name} {size / 1e6:.1f} MB" for name, size in sizes.items())
    bench.add(Case("compose, warm, synced", times, bytes=work["bytes"]))
    bench.remove("image")


def timed_image(bench, image, command, work_hash):
    """Runs a peer and syncs its image, since compose syncs what it stores."""
    if os.path.exists(image):
        os.remove(image)
    ms = bench.time(*command).ms + bench.time("sync", image).ms
    return Sample(ms, work_hash)


def size_of(folder):
    return sum(os.lstat(os.path.join(parent, name)).st_size for parent, _, names in os.walk(folder) for name in names)
