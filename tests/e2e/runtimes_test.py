#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mounted environment as the root file system of other runtimes. Each is first tried on a plain directory: one that
cannot run here at all is skipped, with what it said."""
import json
import os
import subprocess
import unittest

import harness
from harness import WorldTest, need

SCRIPT = "echo hello from $(cat /etc/marker)"


class Runtimes(WorldTest):
    @classmethod
    def prepare(cls):
        need("umoci")
        image = harness.small_image()
        cls.plain = cls.world.path("plain")
        subprocess.run(["umoci", "unpack", "--image", f"{image}:v1", cls.world.path("bundle")], check=True, capture_output=True)
        os.rename(cls.world.path("bundle", "rootfs"), cls.plain)
        with open(os.path.join(cls.plain, "etc", "marker"), "w", encoding="utf-8") as file:
            file.write("the tree")
        # What podman --read-only mounts something on, or makes when it is not there.
        for name in ("hosts", "hostname", "resolv.conf"):
            with open(os.path.join(cls.plain, "etc", name), "w", encoding="utf-8"):
                pass
        os.makedirs(os.path.join(cls.plain, "var", "tmp"), exist_ok=True)
        os.symlink("/proc/mounts", os.path.join(cls.plain, "etc", "mtab"))
        cls.world.compose(f"dir:{cls.plain}", "small")
        cls.mounted = cls.world.mount("small")

    def check(self, program, command):
        """`command` makes the argument list for a root directory."""
        need(program)
        control = subprocess.run(command(self.plain), capture_output=True, text=True, timeout=120)
        if control.returncode != 0:
            raise unittest.SkipTest(f"{program} cannot run here: {control.stderr.strip()[-300:]}")
        self.assertEqual(control.stdout, "hello from the tree\n")
        done = subprocess.run(command(self.mounted), capture_output=True, text=True, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (0, "hello from the tree\n"), done.stderr)

    def podman(self, root, *flags):
        # Limits of our own: podman's defaults want more than some hosts allow.
        return ["podman", "--root", self.world.path("podman"), "--runroot", self.world.path("podman-run"), "--cgroup-manager=cgroupfs",
                "--runtime=runc", "run", "--rm", "--network=none", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", *flags,
                "--rootfs", root, "sh", "-c", SCRIPT]

    def test_podman_with_an_overlay(self):
        self.check("podman", lambda root: self.podman(f"{root}:O"))

    def test_podman_read_only(self):
        self.check("podman", lambda root: self.podman(root, "--read-only"))

    def test_bubblewrap(self):
        self.check("bwrap", lambda root: ["bwrap", "--ro-bind", root, "/", "--proc", "/proc", "--dev", "/dev", "--unshare-all", "sh",
                                          "-c", SCRIPT])

    def test_chroot(self):
        self.check("chroot", lambda root: ["chroot", root, "/bin/sh", "-c", SCRIPT])

    def runc_bundle(self, root):
        bundle = self.world.make_dir("runc" + root.replace("/", "_"))
        if not os.path.exists(os.path.join(bundle, "config.json")):
            subprocess.run(["runc", "spec", "--bundle", bundle], check=True, capture_output=True)
            with open(os.path.join(bundle, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
            config["root"] = {"path": root, "readonly": True}
            config["process"].update(terminal=False, args=["/bin/sh", "-c", SCRIPT], rlimits=[])
            with open(os.path.join(bundle, "config.json"), "w", encoding="utf-8") as file:
                json.dump(config, file)
        return bundle

    def test_runc(self):
        need("runc")
        self.check("runc", lambda root: ["runc", "--root", self.world.path("runc-state"), "run", "--bundle", self.runc_bundle(root),
                                         f"dsec-e2e-{os.getpid()}"])

    def test_an_overlay_of_the_user(self):
        script = ('mount -t overlay overlay -o "lowerdir=$1,upperdir=upper,workdir=work" merged; echo "the tree" > merged/etc/marker; '
                  'rm merged/bin/ls; mv merged/srv/play merged/moved; chroot merged /bin/sh -c "$2"; umount merged')

        def command(root):
            place = "overlay" + root.replace("/", "_")
            for name in ("upper", "work", "merged"):
                self.world.make_dir(place, name)
            return ["unshare", "-m", "sh", "-ec", f'cd "$3"; {script}', "sh", root, SCRIPT, self.world.path(place)]
        self.check("unshare", command)


if __name__ == "__main__":
    harness.main()
