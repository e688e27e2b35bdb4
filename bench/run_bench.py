# SPDX-License-Identifier: Apache-2.0
"""How long a sandbox takes that does nothing, against crun on an unpacked copy and against no sandbox at all."""

import json
import os
import shutil

from measuring import Case, Failed, Sample

WHAT = "dsec run /bin/true, against crun run on an unpacked copy and a bare process"

BUSYBOX = "/bin/busybox"
# crun refuses a cgroup2 mount beside cgroup v1 controllers; a mount namespace without it is what makes it run there.
PRIVATE = "mount --make-rprivate / && { umount /sys/fs/cgroup/unified 2>/dev/null || :; } && exec \"$@\""


def run(bench):
    bench.need_root()
    crun = bench.need_program("crun", "crun")
    bench.need_program("busybox", "busybox-static")
    count = 5 if bench.tiny else 50
    bench.parameters["runs in a row"] = count
    make_bundle(bench, crun)
    bench.dsec("compose", "--from", f"dir:{bench.path('bundle', 'rootfs')}", "--name", "bench")
    probe = bench.need_program("dsec_bench_probe")
    variants = {
        "crun run": ["unshare", "--mount", "sh", "-c", PRIVATE, "sh", probe, "spawn", str(count), crun, "run", "--bundle",
                     bench.path("bundle"), f"bench-{os.getpid()}"],
        "dsec run": [probe, "spawn", str(count), bench.need_program("dsec"), "run", "bench", "--", "/bin/true"],
        "bare process": [probe, "spawn", str(count), bench.path("bundle", "rootfs", "bin", "true")],
    }
    bench.undo.append(lambda: shutil.rmtree(bench.path("bundle"), ignore_errors=True))
    samples = {name: [] for name in variants}
    for command in variants.values():  # not counted: starts the daemon, warms caches
        bench.call(*command)
    for _ in range(bench.repeat):
        for name, command in variants.items():
            samples[name] += [Sample(ns / 1e6) for ns in json.loads(last_line(bench.call(*command)))["ns"]]
    bench.add(Case("run /bin/true", samples))


def last_line(text):
    lines = text.strip().split("\n")
    if not lines[-1].startswith("{"):
        raise Failed(f"no result in: {text}")
    return lines[-1]


def make_bundle(bench, crun):
    """A root file system with a static busybox as /bin/true, and crun's own default configuration for it."""
    bench.remove("bundle")
    root = bench.path("bundle", "rootfs")
    for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
        os.makedirs(os.path.join(root, folder))
    shutil.copy(BUSYBOX, os.path.join(root, "bin", "true"))
    bench.call("sh", "-c", 'cd "$1" && "$2" spec', "sh", bench.path("bundle"), crun)
    path = bench.path("bundle", "config.json")
    with open(path, encoding="utf-8") as file:
        config = json.load(file)
    config["process"].update(args=["/bin/true"], terminal=False)
    with open(path, "w", encoding="utf-8") as file:
        json.dump(config, file)
