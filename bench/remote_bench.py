# SPDX-License-Identifier: Apache-2.0
"""A store behind 20 ms and 200 Mbit/s: how soon a program has run, and how soon all files were read, against getting the
whole image over the same link first: pulled from a registry and unpacked, or copied as one tar.gz from sshfs."""

import contextlib
import json
import os
import subprocess
import time
import unittest

import harness
import registry
from link import Link
from measuring import Case, Failed, Missing, Sample

WHAT = "first run and whole read of an image whose store is behind 20 ms and 200 Mbit/s, against pulling it first"

PORT = 2223
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")
# What a larger Python program loads: about 15 MB of compressed chunks with the interpreter. Prints a checksum of the modules.
PROGRAM = """
import asyncio, ctypes, decimal, email.mime.multipart, http.server, logging.config, multiprocessing.pool, sqlite3, ssl, sys
import tarfile, unittest.mock, urllib.request, xml.dom.minidom, xmlrpc.client, zipfile, zlib
files = {module.__spec__.cached for module in list(sys.modules.values()) if getattr(module, "__spec__", None)} - {None}
print("%08x" % zlib.crc32(b"".join(open(file, "rb").read() for file in sorted(files))), len(files))
"""
TINY_PROGRAM = "cat /bin/busybox /etc/passwd | md5sum"
SKOPEO, PODMAN, COPY = "skopeo and umoci", "podman", "copy of a tar.gz"
NO_TRACE, TRACE, ALL = "lazyfs, no trace", "lazyfs, recorded trace", "lazyfs, prefetch --all"


def run(bench):
    bench.need_root()
    for program, package in (("sshfs", "sshfs"), ("crun", "crun")):
        bench.need_program(program, package)
    server = next((path for path in SFTP_SERVERS if os.access(path, os.X_OK)), None)
    if server is None:
        raise Missing("sftp-server is missing: apt-get install openssh-sftp-server")
    with missing_when_skipped():
        layout = registry.make_image(bench, source_image(bench))
        used = compose(bench, layout)
        make_archive(bench)
        bench.stop_daemon()
        with Far(bench, server) as far, contextlib.ExitStack() as stack:
            measure(bench, far, {**pulls(bench, far, layout, stack), COPY: far.copied}, used)


@contextlib.contextmanager
def missing_when_skipped():
    """What skips a test skips the bench."""
    try:
        yield
    except unittest.SkipTest as reason:
        raise Missing(str(reason)) from reason


def source_image(bench):
    harness.FIXTURES = harness.FIXTURES or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/fixtures")
    return f"{harness.small_image()}:v2" if bench.tiny else f"{harness.big_image()}/debian:tools"


def pulls(bench, far, layout, stack):
    """The ways to pull the image that can be had here: name -> context that gives the folder of its tree."""
    try:
        bench.need_program("docker-registry", "docker-registry")
    except Missing as reason:
        bench.note(f"skipped: {SKOPEO}, {PODMAN}: {reason}")
        return {}
    registered = stack.enter_context(registry.Registry(bench, far.link, layout))
    stack.callback(registered.report)
    bench.note(f"{SKOPEO}: skopeo copy of the image from docker-registry behind the link, umoci raw unpack, chroot")
    ways = {SKOPEO: registered.pulled_by_skopeo}
    try:
        bench.need_program("podman", "podman")
        bench.note(f"{PODMAN}: podman pull from there, which unpacks meanwhile, podman image mount, chroot")
        ways[PODMAN] = registered.pulled_by_podman
    except Missing as reason:
        bench.note(f"skipped: {PODMAN}: {reason}")
    return ways


def program(bench):
    return ["sh", "-c", TINY_PROGRAM] if bench.tiny else ["python3", "-c", PROGRAM]


def compose(bench, layout):
    """Composes the image as `remote` and records a run; the compressed bytes that the run uses."""
    report = json.loads(bench.dsec("compose", "--from", f"oci:{layout}:1", "--name", "remote", "--json"))
    bench.parameters["stored MB"] = report["pack_bytes"] // 1_000_000
    run_program(bench, "--record")
    with open(bench.path("record.json"), encoding="utf-8") as file:
        return json.load(file)["trace"]["stored_bytes"]


def run_program(bench, *options):
    """In a sandbox; what it printed."""
    return bench.dsec("run", "--json-file", bench.path("record.json"), *options, "remote", *program(bench))


def make_archive(bench):
    """The same tree as one tar.gz."""
    archive = bench.path("far", "image.tar.gz")
    os.makedirs(os.path.dirname(archive), exist_ok=True)
    mounted = bench.path("whole")
    os.makedirs(mounted, exist_ok=True)
    bench.dsec("mount", "remote", mounted)
    try:
        bench.call("sh", "-c", 'tar -C "$1" --numeric-owner -cf - . | gzip -6 >"$2"', "sh", mounted, archive)
    finally:
        bench.dsec("umount", mounted)
    bench.parameters["tar.gz MB"] = os.path.getsize(archive) // 1_000_000


class Far:
    """The store and the archive on the far side of the link, and `dsec` on a node that has neither."""

    def __init__(self, bench, server):
        self.bench = bench
        self.server = server
        self.mounted = []

    def __enter__(self):
        self.link = Link(round_trip=0.020, loss=0, rate_bits=200e6)
        self.link.serve_far(PORT, self.server, "-R")
        self.bench.environment["DSEC_STORE"] = self.mount("store", "remote-store")
        self.files = self.mount("far", "remote-files")
        self.bench.environment["DSEC_LAZYFSD_CONF"] = self.bench.path("lazyfsd.toml")
        self.bench.note("link: 20 ms there and back, 200 Mbit/s that all connections share")
        self.bench.note(f"{COPY}: one stream from sshfs behind the link into tar, chroot")
        return self

    def mount(self, what, name):
        target = self.bench.path(name)
        os.makedirs(target, exist_ok=True)
        command = ["sshfs", f"{Link.FAR_ADDRESS}:{self.bench.path(what)}", target, "-o", f"directport={PORT},ro"]
        subprocess.run(self.link.inside(self.link.near, *command), check=True, timeout=30)
        self.mounted.append(target)
        return target

    def __exit__(self, *_):
        self.bench.stop_daemon()
        for target in self.mounted:
            subprocess.run(["umount", "-l", target], check=False)
        self.link.close()

    def fresh(self, **settings):
        """A node that has nothing of the store."""
        self.bench.stop_daemon()
        self.bench.remove("state")
        with open(self.bench.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.writelines(f'{key} = "{value}"\n' for key, value in settings.items())
        self.bench.drop_caches()

    def fetched(self):
        return json.loads(self.bench.dsec("fs", "status", "--json"))["chunks"]["node_cache"]["store_bytes"]

    @contextlib.contextmanager
    def copied(self):
        """The archive's tree, read as one stream."""
        unpacked = self.bench.path("unpacked")
        os.makedirs(unpacked)
        try:
            self.bench.call("tar", "-C", unpacked, "--numeric-owner", "-xzpf", os.path.join(self.files, "image.tar.gz"))
            yield unpacked
        finally:
            self.bench.remove("unpacked")


def measure(bench, far, peers, used):
    """From nothing on the node to the end of the program, and to the end of an archive of the whole tree."""
    first = {name: [] for name in (*peers, NO_TRACE, TRACE)}
    whole = {name: [] for name in (*peers, ALL)}
    bench.parameters["repeat"] = 1 if bench.tiny else min(3, bench.repeat)
    for _ in range(bench.parameters["repeat"]):
        for name, peer in peers.items():
            if name == COPY and first[COPY]:
                continue  # it takes longest and varies least: once
            ran, read = after(bench, far, peer)
            first[name].append(ran)
            whole[name].append(read)
        far.fresh(prefetch="off", record="off")
        first[NO_TRACE].append(timed(lambda: run_program(bench)))
        bench.fact("bytes fetched / compressed bytes used, no trace", far.fetched() / used, "x", 1.5)
        far.fresh(record="off")
        first[TRACE].append(timed(lambda: run_program(bench)))
        bench.fact("bytes fetched / compressed bytes used, trace", far.fetched() / used, "x", 1.2)
        far.fresh(record="off")
        whole[ALL].append(timed(lambda: mount_and_read(bench)))
    for name in peers:
        bench.add(Case(f"first run, against {name}", {key: first[key] for key in (name, NO_TRACE, TRACE)}, bar=1 / 8))
    for name in peers:
        bench.add(Case(f"tar of the whole tree, against {name}", {key: whole[key] for key in (name, ALL)}, bar=1.1))


def after(bench, far, peer):
    """Gets the whole image once; the times until then and the program's end, and until then and the archive's end."""
    far.fresh()
    start = time.perf_counter()
    with peer() as root:
        ms = (time.perf_counter() - start) * 1e3
        ran = timed(lambda: bench.call("chroot", root, *program(bench)))
        read = timed(lambda: read_whole(bench, root))
    return Sample(ms + ran.ms, ran.hash), Sample(ms + read.ms, read.hash)


def timed(work):
    """Its time and what it printed."""
    start = time.perf_counter()
    printed = work()
    return Sample((time.perf_counter() - start) * 1e3, " ".join(printed.split()))


def read_whole(bench, folder):
    """Every byte of the tree, into an archive; its checksum. Without times and the root itself, which not all that unpack keep."""
    return bench.call("sh", "-c", 'cd "$1" && ls -A | LC_ALL=C sort | tar -T - --sort=name --numeric-owner --mtime=@0 -cf - | cksum',
                      "sh", folder)


def mount_and_read(bench):
    mounted = bench.path("whole")
    bench.dsec("mount", "remote", mounted)
    everything = subprocess.Popen([bench.need_program("dsec"), "prefetch", "--all", "remote"], env=bench.environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        printed = read_whole(bench, mounted)
        if everything.wait() != 0:
            raise Failed(f"dsec prefetch --all: {everything.stderr.read().strip()}")
        return printed
    finally:
        everything.kill()
        everything.wait()
        everything.stderr.close()
        bench.dsec("umount", mounted)
