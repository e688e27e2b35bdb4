# SPDX-License-Identifier: Apache-2.0
"""Directories to measure: as they are, as a lazyfs mount, or below an overlay as sandboxes have it."""

import os
import subprocess


class Plain:
    """A directory."""

    def __init__(self, name, path):
        self.name = name
        self.path = path

    def up(self):
        pass

    def down(self):
        pass


class Lazy:
    """An environment through `dsec mount`. `mode` is one of --rootfs-mode, `variant` of a daemon (Bench.daemon_with())."""

    def __init__(self, bench, mode, env, variant="", daemon=None):
        self.bench = bench
        self.mode = mode
        self.env = env
        self.daemon = daemon
        self.name = f"lazyfs {mode} {variant}".strip()
        self.path = bench.path(self.name.replace("lazyfs", "mnt").replace(" ", "-"))
        self.mounted = False

    def up(self):
        if self.mounted:
            return
        os.makedirs(self.path, exist_ok=True)
        self.bench.dsec("mount", "--rootfs-mode", self.mode, self.env, self.path, environment=self.daemon)
        self.mounted = True

    def down(self):
        if self.mounted:
            self.bench.dsec("umount", self.path, environment=self.daemon)
            self.mounted = False


class Overlay:
    """Another directory as the lower of an overlayfs with an empty upper."""

    def __init__(self, bench, lower):
        self.bench = bench
        self.lower = lower
        self.name = f"overlay on {lower.name}"
        self.path = bench.path("overlay", lower.name.replace(" ", "-"))
        self.mounted = False

    def up(self):
        if self.mounted:
            return
        self.lower.up()
        scratch = self.path + ".scratch"
        subprocess.run(["rm", "-rf", scratch], check=True)
        for folder in (self.path, scratch + "/upper", scratch + "/work"):
            os.makedirs(folder, exist_ok=True)
        self.bench.call("mount", "-t", "overlay", "overlay", "-o",
                        f"lowerdir={self.lower.path},upperdir={scratch}/upper,workdir={scratch}/work", self.path)
        self.mounted = True

    def down(self):
        if self.mounted:
            self.bench.call("umount", self.path)
            self.mounted = False
        self.lower.down()
