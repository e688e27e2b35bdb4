# SPDX-License-Identifier: Apache-2.0
"""How fast a composed tree is read through its mount, against the directory it was made from."""

import os

import trees
from measuring import Case, Sample

WHAT = "walks and reads on a lazyfs mount, cold and warm, against the directory itself"

SEED = "7"


def run(bench):
    bench.need_root()
    tree = trees.prepare(bench)
    bench.dsec("compose", "--from", f"dir:{tree}", "--name", "bench")
    mount = Mount(bench)
    bench.undo.append(mount.unmount)
    bench.parameters["directory on"] = file_system_of(bench, tree)
    big = largest_file(tree)
    bench.parameters["reads of"] = f"{os.path.relpath(big, tree)}, {os.path.getsize(big)} bytes"
    random_reads = 200 if bench.tiny else 20000
    works = {
        "find": lambda root: ("find", root),
        "find -ls": lambda root: ("stat", root),
        "read all files": lambda root: ("read", root),
        "read sequentially 128K": lambda root: ("seq", os.path.join(root, os.path.relpath(big, tree))),
        "read randomly 4K": lambda root: ("rand", os.path.join(root, os.path.relpath(big, tree)), str(random_reads), SEED),
    }
    can_drop = bench.drop_caches()
    if not can_drop:
        print("skipped: cold cases: /proc/sys/vm/drop_caches cannot be written")
    for title, arguments in works.items():
        if can_drop:
            bench.add(measure(bench, f"{title}, cold", tree, mount, arguments, cold=True))
        bench.add(measure(bench, f"{title}, warm", tree, mount, arguments, cold=False))


class Mount:
    """The environment's mount. To make it cold the daemon is started anew, so that nothing is left in its memory."""

    def __init__(self, bench):
        self.bench = bench
        self.path = bench.path("mnt")
        self.mounted = False
        os.makedirs(self.path, exist_ok=True)

    def mount(self):
        if not self.mounted:
            self.bench.dsec("mount", "bench", self.path)
            self.mounted = True

    def unmount(self):
        if self.mounted:
            self.bench.dsec("umount", self.path)
            self.mounted = False

    def renew(self):
        self.unmount()
        self.bench.stop_daemon()
        self.mount()


def measure(bench, title, tree, mount, arguments, cold):
    """Alternates between the two; a warm measurement follows one that is not counted."""
    samples = {"directory": [], "lazyfs": []}
    for _ in range(max(2, bench.repeat // 2) if cold else bench.repeat):
        for variant, root in (("directory", tree), ("lazyfs", mount.path)):
            if cold:
                mount.renew()
                bench.drop_caches()
            else:
                mount.mount()
                bench.probe(*arguments(root))
            work = bench.probe(*arguments(root))
            samples[variant].append(Sample(work["ns"][0] / 1e6, work["hash"]))
    return Case(title, samples, bytes=work["bytes"], operations=work["operations"])


def largest_file(tree):
    files = (os.path.join(parent, name) for parent, _, names in os.walk(tree) for name in names)
    return max((path for path in files if not os.path.islink(path)), key=os.path.getsize)


def file_system_of(bench, path):
    return bench.call("stat", "-f", "-c", "%T", path).strip()
