# SPDX-License-Identifier: Apache-2.0
"""A store behind 20 ms and 200 Mbit/s: how soon a program has run, and how soon all files were read, against copying the
image over the same link first."""

import json
import os
import shutil
import subprocess
import sys
import time

import corpus
from harness import Case, Failed, Missing, Sample

WHAT = "first run and whole read of an image whose store is behind 20 ms and 200 Mbit/s, against copying it first"

PORT = 2223
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")
# What a larger Python program loads: about 15 MB of compressed chunks with the interpreter.
PROGRAM = ("import asyncio, ctypes, decimal, email.mime.multipart, http.server, logging.config, "
           "multiprocessing.pool, sqlite3, ssl, tarfile, unittest.mock, urllib.request, xml.dom.minidom, xmlrpc.client, zipfile")
BALLAST = "/opt/corpus"  # files that the program does not need, so that the image has the size of a real one


def run(bench):
    bench.need_root()
    for program, package in (("sshfs", "sshfs"), ("crun", "crun"), ("umoci", "umoci")):
        bench.need_program(program, package)
    server = next((path for path in SFTP_SERVERS if os.access(path, os.X_OK)), None)
    if server is None:
        raise Missing("sftp-server is missing: apt-get install openssh-sftp-server")
    image, link_class = fixtures(bench)
    used = compose(bench, image)
    archive = make_archive(bench)
    bench.stop_daemon()
    with Far(bench, link_class, server) as far:
        measure_start(bench, far, archive, used)
        measure_all(bench, far, archive)


def fixtures(bench):
    """The image (made once) and the class of the link."""
    here = os.path.dirname(os.path.abspath(__file__))
    code = ("import harness, json, sys; print(json.dumps(harness.small_image() if sys.argv[1] == 'tiny' else "
            "harness.big_image() + '/debian'))")
    kind = "tiny" if bench.tiny else "full"
    tests = os.path.join(here, "../tests/e2e")
    ran = subprocess.run([sys.executable, "-c", code, kind], cwd=tests, capture_output=True, text=True, check=False,
                         env={"DSEC_FIXTURES": os.path.join(here, "../build/fixtures"), **os.environ, "PYTHONPATH": tests,
                              "DSEC_BIN_DIR": bench.bin_dir})
    if ran.returncode != 0:
        raise Missing(f"the image cannot be made: {ran.stderr.strip()[-500:]}")
    ours = sys.modules.pop("harness")
    sys.modules.pop("link", None)
    try:
        sys.path.insert(0, tests)
        from link import Link  # with the tests' harness
    finally:
        sys.path.remove(tests)
        sys.modules["harness"] = ours
    return json.loads(ran.stdout.strip().splitlines()[-1]), Link


def program(bench):
    return ["sh", "-c", "cat /bin/* >/dev/null"] if bench.tiny else ["python3", "-c", PROGRAM]


def compose(bench, image):
    """Composes image and ballast as `remote:1` and records a run; the compressed bytes that the run uses."""
    folder = corpus.prepare(bench)
    text = 'version = 1\nname = "remote"\ntag = "1"\n'
    text += f'[[layer]]\nname = "remote/image@1"\nfrom = "oci:{image}:{"v2" if bench.tiny else "tools"}"\n'
    for layer in corpus.LAYERS:
        text += f'[[layer]]\nname = "remote/{layer}@1"\nfrom = "dir:{folder}/{layer}"\ntarget = "{BALLAST}"\n'
    path = bench.path("remote.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    report = json.loads(bench.dsec("compose", "-f", path, "--json"))
    bench.parameters["stored MB"] = report["pack_bytes"] // 1_000_000
    return run_program(bench, "--record")["trace"]["stored_bytes"]


def run_program(bench, *options):
    record = bench.path("record.json")
    bench.dsec("run", "--json-file", record, *options, "remote:1", *program(bench))
    with open(record, encoding="utf-8") as file:
        return json.load(file)


def make_archive(bench):
    """The same tree as one tar.gz, as registries keep layers."""
    archive = bench.path("far", "image.tar.gz")
    os.makedirs(os.path.dirname(archive), exist_ok=True)
    mounted = bench.path("whole")
    os.makedirs(mounted, exist_ok=True)
    bench.dsec("mount", "remote:1", mounted)
    try:
        bench.call("sh", "-c", 'tar -C "$1" --numeric-owner -cf - . | gzip -6 >"$2"', "sh", mounted, archive)
    finally:
        bench.dsec("umount", mounted)
    bench.parameters["tar.gz MB"] = os.path.getsize(archive) // 1_000_000
    return archive


class Far:
    """The store and the archive on the far side of the link, and `dsec` on a node that has neither."""

    def __init__(self, bench, link_class, server):
        self.bench = bench
        self.link_class = link_class
        self.server = server

    def __enter__(self):
        self.link = self.link_class(round_trip=0.020, loss=0, rate_bits=200e6)
        self.link.serve_far(PORT, self.server, "-R")
        self.store = self.mount("store", "remote-store")
        self.files = self.mount("far", "remote-files")
        self.bench.environment["DSEC_STORE"] = self.store
        self.bench.environment["DSEC_LAZYFSD_CONF"] = self.bench.path("lazyfsd.toml")
        return self

    def mount(self, what, name):
        target = self.bench.path(name)
        os.makedirs(target, exist_ok=True)
        command = ["sshfs", f"{self.link_class.FAR_ADDRESS}:{self.bench.path(what)}", target, "-o", f"directport={PORT},ro"]
        subprocess.run(self.link.inside(self.link.near, *command), check=True, timeout=30)
        return target

    def __exit__(self, *_):
        self.bench.stop_daemon()
        for target in (self.store, self.files):
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


def measure_start(bench, far, archive, used):
    """From nothing on the node to the end of the program."""
    repeat = 1 if bench.tiny else max(1, min(3, bench.repeat))
    samples = {"copy first": [], "dsec run, no trace": [], "dsec run, trace": []}
    for _ in range(repeat):
        far.fresh()
        samples["copy first"].append(timed(
            lambda: copy_and(bench, far, archive, lambda root: bench.call("chroot", root, *program(bench)))))
        far.fresh(prefetch="off", record="off")
        samples["dsec run, no trace"].append(timed(lambda: run_program(bench)))
        bench.fact("bytes fetched / compressed bytes used, no trace", far.fetched() / used, "x", 1.5)
        far.fresh(record="off")
        samples["dsec run, trace"].append(timed(lambda: run_program(bench)))
        bench.fact("bytes fetched / compressed bytes used, trace", far.fetched() / used, "x", 1.2)
    bench.add(Case("first run of the program", samples, bar=1 / 8))


def timed(work):
    start = time.perf_counter_ns()
    work()
    return Sample((time.perf_counter_ns() - start) / 1e6)


def copy_and(bench, far, archive, use):
    """Unpacks the archive from the far side and calls use(folder) on what came out."""
    unpacked = bench.path("unpacked")
    os.makedirs(unpacked)
    try:
        bench.call("tar", "-C", unpacked, "--numeric-owner", "-xzpf", os.path.join(far.files, os.path.basename(archive)))
        use(unpacked)
    finally:
        shutil.rmtree(unpacked)


def read_whole(bench, folder):
    bench.call("sh", "-c", 'tar -C "$1" -cf - . | wc -c', "sh", folder)


def measure_all(bench, far, archive):
    """Every byte of the tree is needed: an archive is made of it."""
    samples = {"copy first": [], "dsec mount and prefetch --all": []}
    far.fresh()
    samples["copy first"].append(timed(
        lambda: copy_and(bench, far, archive, lambda root: read_whole(bench, root))))
    far.fresh(record="off")
    samples["dsec mount and prefetch --all"].append(timed(lambda: mount_and_read(bench)))
    bench.add(Case("tar of the whole tree", samples, bar=1.1))


def mount_and_read(bench):
    mounted = bench.path("whole")
    bench.dsec("mount", "remote:1", mounted)
    everything = subprocess.Popen([bench.need_program("dsec"), "prefetch", "--all", "remote:1"], env=bench.environment,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        read_whole(bench, mounted)
        if everything.wait() != 0:
            raise Failed(f"dsec prefetch --all: {everything.stderr.read().strip()}")
    finally:
        everything.kill()
        everything.wait()
        everything.stderr.close()
        bench.dsec("umount", mounted)
