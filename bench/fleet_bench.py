# SPDX-License-Identifier: Apache-2.0
"""What a node pays for many layers, many environments and many sandboxes."""

import hashlib
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import time

from measuring import Failed

WHAT = "attach of 30 layers, memory of 100 environments, 100 sandboxes that read the same bytes"

BUSYBOX = "/bin/busybox"
SEED = 20240502


def run(bench):
    bench.need_root()
    bench.need_program("busybox", "busybox-static")
    bench.need_program("crun", "crun")
    attach(bench)
    memory(bench)
    sandboxes(bench)


# ---- attach

def attach(bench):
    layers, entries = (3, 300) if bench.tiny else (30, 130_000)
    make_layers(bench, layers, entries // layers)
    env = compose(bench, "attach", [(f"attach/l{i:02}", bench.path("layers", f"l{i:02}")) for i in range(layers)])
    with Daemon(bench) as daemon:
        daemon.attach(env)  # the local copies are made
    warm = [timed_attach(bench, env, cold=False) for _ in range(bench.repeat)]
    title = f"attach {layers} layers, {layers * (entries // layers)} entries, copies on disk"
    bench.fact(f"{title}, page cache warm", statistics.median(warm), "ms", 10.0)
    if bench.drop_caches():
        cold = [timed_attach(bench, env, cold=True) for _ in range(max(2, bench.repeat // 2))]
        bench.fact(f"{title}, page cache cold", statistics.median(cold), "ms")


def timed_attach(bench, env, cold):
    with Daemon(bench) as daemon:
        if cold:
            bench.drop_caches()
        return daemon.attach(env)


def make_layers(bench, layers, entries):
    """Directories of small files; each layer adds to the directories of those below it and has some of its own."""
    base = bench.path("layers")
    subprocess.run(["rm", "-rf", base], check=True)
    for layer in range(layers):
        root = os.path.join(base, f"l{layer:02}")
        made = 0
        for folder in range(entries // 25):
            name = f"usr/shared/d{folder:03}" if folder % 2 else f"opt/l{layer:02}/d{folder:03}"
            os.makedirs(os.path.join(root, name), exist_ok=True)
            made += 1
            for file in range(24):
                if made < entries:
                    with open(os.path.join(root, name, f"f{layer:02}-{file:02}"), "wb") as out:
                        out.write(b"%d" % (file % 7))
                    made += 1


def compose(bench, name, layers):
    """An environment of directories; its digest."""
    return compose_report(bench, name, layers)["env"]


def compose_report(bench, name, layers):
    text = f'version = 1\nname = "{name}"\ntag = "1"\n'
    for ref, folder in layers:
        text += f'[[layer]]\nname = "{ref}@1"\nfrom = "dir:{folder}"\n'
    path = bench.path(f"{name.replace('/', '-')}.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return json.loads(bench.dsec("compose", "-f", path, "--json"))


class Daemon:
    """A lazyfsd of its own for a while, spoken to as control/client.h does, without starting a program each time."""

    def __init__(self, bench):
        self.bench = bench

    def __enter__(self):
        self.bench.stop_daemon()
        hold = self.bench.path("hold")
        os.makedirs(hold, exist_ok=True)
        if not os.path.exists(self.bench.path("tiny-layer", "f")):
            os.makedirs(self.bench.path("tiny-layer"), exist_ok=True)
            with open(self.bench.path("tiny-layer", "f"), "w", encoding="ascii") as file:
                file.write("x")
        compose(self.bench, "tiny", [("tiny/l", self.bench.path("tiny-layer"))])
        self.bench.dsec("mount", "tiny:1", hold)  # starts it
        folder = self.bench.path("run", "lazyfs")
        paths = [os.path.join(folder, name, "control") for name in os.listdir(folder)]
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(paths[0])
        self.reader = self.socket.makefile("rb")
        self.count = 0
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.bench.dsec("umount", self.bench.path("hold"))
        subprocess.run([self.bench.need_program("dsec"), "fs", "stop", "--force"], env=self.bench.environment, check=False,
                       capture_output=True)

    def call(self, **request):
        self.socket.sendall(json.dumps(request).encode() + b"\n")
        reply = json.loads(self.reader.readline())
        if "error" in reply:
            raise Failed(f"{request}: {reply['error']}")
        return reply

    def attach(self, env):
        """Milliseconds."""
        self.count += 1
        start = time.perf_counter_ns()
        self.call(op="attach", env=env, view="overlay", owner=f"bench:{self.count}", leased=False, rootfs_mode="tree")
        return (time.perf_counter_ns() - start) / 1e6

    def pid(self):
        return self.call(op="status")["pid"]


# ---- memory

def memory(bench):
    envs = 5 if bench.tiny else 100
    shared = [(f"attach/l{i:02}", bench.path("layers", f"l{i:02}")) for i in range(3 if bench.tiny else 10)]
    digests = []
    for number in range(envs):
        own = bench.path("own", f"e{number:03}")
        os.makedirs(own, exist_ok=True)
        for file in range(20):
            with open(os.path.join(own, f"f{file:02}"), "w", encoding="ascii") as out:
                out.write(f"{number} {file}")
        digests.append(compose(bench, f"fleet/e{number:03}", shared + [(f"fleet/own{number:03}", own)]))
    with Daemon(bench) as daemon:
        for env in digests:
            daemon.attach(env)
        pid = daemon.pid()
        with open(f"/proc/{pid}/status", encoding="ascii") as file:
            kib = {line.split(":")[0]: int(line.split()[1]) for line in file if line.startswith(("RssAnon", "VmRSS"))}
        bench.fact(f"private memory of lazyfsd with {envs} environments of {len(shared) + 1} layers attached, idle",
                   kib["RssAnon"] / 1024, "MiB", 64.0)
        bench.fact("  of it and the mapped metadata (shared with the page cache)", kib["VmRSS"] / 1024, "MiB")


# ---- sandboxes

def sandboxes(bench):
    """Stored bytes and page cache of one reader and of many."""
    count, size = (4, 4 << 20) if bench.tiny else (100, 500 << 20)
    root = bench.path("shell-layer")
    for folder in ("bin", "dev", "etc", "proc", "sys", "tmp"):
        os.makedirs(os.path.join(root, folder), exist_ok=True)
    shutil.copy(BUSYBOX, os.path.join(root, "bin", "busybox"))
    data = bench.path("data-layer")
    os.makedirs(data, exist_ok=True)
    generator = random.Random(SEED)
    sha = hashlib.md5()
    with open(os.path.join(data, "data"), "wb") as file:
        for _ in range(size >> 20):
            block = generator.randbytes(512 << 10) + bytes(range(256)) * 2048
            file.write(block)
            sha.update(block)
    report = compose_report(bench, "many", [("many/shell", root), ("many/data", data)])
    env, stored = report["env"], report["pack_bytes"]
    if not bench.drop_caches():
        print("skipped: 100 readers: /proc/sys/vm/drop_caches cannot be written")
        return
    with Daemon(bench) as daemon:
        before = cached_mib()
        command = [bench.need_program("dsec"), "run", "many:1", "/bin/busybox", "md5sum", "/data"]
        start = time.monotonic()
        running = [subprocess.Popen(command, env=bench.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                    text=True) for _ in range(count)]
        outputs = [process.communicate()[0] for process in running]
        seconds = time.monotonic() - start
        if any(not text.startswith(sha.hexdigest()) for text in outputs):
            raise Failed("a sandbox read other bytes")
        usage = daemon.call(op="usage", env=env) if daemon.attach(env) else {}
        bench.fact(f"{count} sandboxes read the same {size >> 20} MiB: read from the store / stored once",
                   usage["store_bytes"] / stored, "x", 1.05)
        packs = resident_mib(bench.path("store", "packs"))
        bench.fact("  page cache that it took, the packs' own left out / the bytes once",
                   (cached_mib() - before - packs) / (size / 2**20), "x")
        bench.fact("  page cache of the packs, which goes first when memory is short / the bytes once",
                   packs / (size / 2**20), "x")
        bench.fact("  time, starting them included", seconds, "s")


def cached_mib():
    with open("/proc/meminfo", encoding="ascii") as file:
        values = {line.split(":")[0]: int(line.split()[1]) for line in file}
    return values["Cached"] / 1024


def resident_mib(directory):
    """What of the files below it is in the page cache."""
    files = [os.path.join(folder, name) for folder, _, names in os.walk(directory) for name in names]
    sizes = subprocess.run(["fincore", "--bytes", "--noheadings", "--output", "RES", *files], check=True, capture_output=True,
                           text=True).stdout.split()
    return sum(map(int, sizes)) / 2**20
