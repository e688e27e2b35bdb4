# SPDX-License-Identifier: Apache-2.0
"""An image in a registry on the far side of a link, and the ways in which a node gets it from there."""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import time

import corpus
import harness
from measuring import Failed

PORT = 5000
IMAGE = "remote:1"
BALLAST = "opt/corpus"  # files that no program of the image needs, so that it has the size of a real one
CONFIG = """version: 0.1
log: {{level: error, accesslog: {{disabled: true}}}}
storage: {{filesystem: {{rootdirectory: "{folder}"}}}}
http: {{addr: "{address}:{port}"}}
"""
START_TIMEOUT_S = 10


def make_image(bench, source):
    """The OCI layout of an image, tag 1: all layers of `source` and the corpus on top, each a gzip blob. Made once."""
    for program in ("skopeo", "umoci"):
        bench.need_program(program, program)
    folder = corpus.prepare(bench)
    layout = bench.path("image-tiny" if bench.tiny else "image")
    if not os.path.exists(layout):
        made = layout + ".tmp"
        subprocess.run(["rm", "-rf", made], check=True)
        bench.call("skopeo", "--insecure-policy", "copy", "-q", f"oci:{source}", f"oci:{made}:1")
        for layer in corpus.LAYERS:
            tar = layout + ".tar"
            bench.call("tar", "-C", os.path.join(folder, layer), "--format=pax", "--xattrs", "--numeric-owner", "--sort=name",
                       "--transform", f"s,^[.],{BALLAST},S", "-cf", tar, ".")
            bench.call("umoci", "raw", "add-layer", "--image", f"{made}:1", tar)
            os.remove(tar)
        os.rename(made, layout)
    bench.parameters["layer blobs MB"] = "+".join(f"{size / 1e6:.1f}" if bench.tiny else f"{size // 1_000_000}"
                                                  for size in layer_sizes(layout))
    return layout


def layer_sizes(layout):
    def document(digest):
        with open(os.path.join(layout, "blobs", *digest.split(":")), encoding="utf-8") as file:
            return json.load(file)

    with open(os.path.join(layout, "index.json"), encoding="utf-8") as file:
        index = json.load(file)
    return [layer["size"] for layer in document(index["manifests"][0]["digest"])["layers"]]


class Registry:
    """As a context: docker-registry on the far side of a link, which it ends with, and the image of a layout in it."""

    def __init__(self, bench, link, layout):
        self.bench, self.link, self.layout = bench, link, layout
        self.url = f"{link.FAR_ADDRESS}:{PORT}/{IMAGE}"
        self.seconds = {}  # what -> how long it took each time
        self.podman = ["podman", "--root", bench.path("podman"), "--runroot", bench.path("podman-run"), "--tmpdir",
                       bench.path("podman-tmp"), "--storage-driver=overlay", "--cgroup-manager=cgroupfs"]

    def __enter__(self):
        self.clean()
        config = self.bench.path("registry.yml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(CONFIG.format(folder=self.bench.path("registry"), address=self.link.FAR_ADDRESS, port=PORT))
        with open(self.bench.path("registry.log"), "wb") as log:
            self.link.start_far("docker-registry", "serve", config, stdout=log, stderr=subprocess.STDOUT)
        self.wait()
        self.bench.call(*self.link.inside(self.link.far, "skopeo", "--insecure-policy", "copy", "-q", "--dest-tls-verify=false",
                                          f"oci:{self.layout}:1", f"docker://{self.url}"))
        return self

    def wait(self):
        code = f"import socket; socket.create_connection(('{self.link.FAR_ADDRESS}', {PORT}))"
        command = self.link.inside(self.link.far, sys.executable, "-c", code)
        if not harness.wait_until(lambda: subprocess.run(command, capture_output=True, check=False).returncode == 0,
                                  START_TIMEOUT_S):
            raise Failed(f"docker-registry does not answer: see {self.bench.path('registry.log')}")

    def __exit__(self, *_):
        self.clean()

    def clean(self):
        for name in ("podman", "podman-run", "podman-tmp", "pulled", "unpacked", "registry"):
            self.drop(name)

    def drop(self, name):
        """Removes a folder and what is mounted there."""
        for point in reversed(harness.mounts_below(self.bench.path(name))):
            subprocess.run(["umount", "-l", point], check=False)
        self.bench.remove(name)

    def do(self, what, *command, **environment):
        start = time.perf_counter()
        printed = self.bench.call(*command, environment={**self.bench.environment, **environment})
        self.seconds.setdefault(what, []).append(time.perf_counter() - start)
        return printed.strip()

    # Each is a context that gives the folder of the whole tree, with nothing of the image on the node before.

    @contextlib.contextmanager
    def pulled_by_skopeo(self):
        """All blobs first, several at a time, then layer by layer; without umoci's list of all files and their hashes."""
        pulled, unpacked = self.bench.path("pulled"), self.bench.path("unpacked")
        try:
            self.do("skopeo copy", *self.link.inside(self.link.near, "skopeo", "--insecure-policy", "copy", "-q",
                                                     "--src-tls-verify=false", f"docker://{self.url}", f"oci:{pulled}:1"))
            self.do("umoci raw unpack", "umoci", "raw", "unpack", "--image", f"{pulled}:1", unpacked)
            yield unpacked
        finally:
            self.drop("pulled")
            self.drop("unpacked")

    @contextlib.contextmanager
    def pulled_by_podman(self):
        """Layers are unpacked while later ones are on their way."""
        os.makedirs(self.bench.path("podman-tmp"), exist_ok=True)
        try:
            self.do("podman pull", *self.link.inside(self.link.near, *self.podman, "pull", "-q", "--tls-verify=false", self.url),
                    TMPDIR=self.bench.path("podman-tmp"))
            yield self.do("podman image mount", *self.podman, "image", "mount", self.url)
        finally:
            self.drop("podman")
            self.drop("podman-run")
            self.drop("podman-tmp")

    def report(self):
        """How long each step took, and what came through the link."""
        for what, seconds in self.seconds.items():
            self.bench.fact(what, statistics.median(seconds), "s")
        if "skopeo copy" in self.seconds:
            rate = sum(layer_sizes(self.layout)) * 8 / statistics.median(self.seconds["skopeo copy"])
            self.bench.fact("layer blobs through the link, skopeo copy", rate / 1e6, "Mbit/s")
