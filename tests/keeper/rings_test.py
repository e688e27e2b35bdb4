#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""transport = "io_uring": as fast paths go, and nobody waits for ever when lazyfsd dies, although nobody goes on."""
import fcntl
import os
import signal
import subprocess
import sys
import unittest

import keeper_test as base
from keeper_test import drop_caches, harness, is_alive, kill, load, wait_until

PARAMETER = "/sys/module/fuse/parameters/enable_uring"


class Offer:
    """The kernel offers FUSE over io_uring while this is open; then it is as before. One at a time on this machine."""

    def __init__(self):
        try:
            self.file = open(PARAMETER, "r+", encoding="ascii")
            fcntl.flock(self.file, fcntl.LOCK_EX)
            self.before = self.file.read(1)
            self.write("Y")
        except OSError as error:
            raise unittest.SkipTest(f"FUSE over io_uring needs Linux 6.14 and the right to set it: {error}") from error

    def write(self, value):
        with open(PARAMETER, "w", encoding="ascii") as file:
            file.write(value)

    def close(self):
        self.write(self.before)
        self.file.close()


class Rings(base.KeeperTest):
    @classmethod
    def prepare(cls):
        offer = Offer()
        cls.addClassCleanup(offer.close)
        super().prepare()

    def configure(self, transport):
        with open(self.world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.write(f'transport = "{transport}"\n')

    def setUp(self):
        self.configure("io_uring")
        super().setUp()
        self.assertEqual(self.status()["transport"], "io_uring", self.world.daemon_log())

    def gets_an_error(self, path):
        """A reader that is waiting, or one that comes now, ends with an error and does not hang."""
        (code, _, errors), = self.finish(self.start_readers([path]), 30)
        self.assertTrue(code != 0 and ("not connected" in errors or "abort" in errors), errors)

    def serves_anew(self):
        self.world.try_dsec("umount", self.root)
        self.mount("tree")
        self.assertTrue(load.file_digest(os.path.join(self.root, "bin/busybox"), True))
        self.assertEqual(self.status()["transport"], "io_uring")

    def test_what_is_read_is_what_is_read_through_the_device(self):
        roots = {"tree": self.root, "objects": self.mount("objects")}
        drop_caches()
        with_rings = self.expected_of(roots)
        self.tearDown()
        self.configure("fuse")
        super().setUp()
        self.assertEqual(self.status()["transport"], "fuse")
        self.mount("objects")
        self.assertEqual(with_rings, self.expected_of(roots))

    def expected_of(self, roots):
        """Without the numbers of the devices: these are other mounts, which need not get the same."""
        expected = {mode: load.expected_of(root) for mode, root in roots.items()}
        for facts, _ in (entry for entries in expected.values() for entry in entries.values()):
            facts[load.DEVICE] = None
        return expected

    def test_a_sandbox_runs(self):
        for mode in ("tree", "objects"):
            out = self.world.dsec("run", "--rootfs-mode", mode, "small", "--", "/bin/busybox", "sha256sum",
                                  "/bin/busybox")
            self.assertEqual(out.split()[0], load.file_digest(os.path.join(self.root, "bin/busybox"), False))

    def test_readers_get_an_error_when_it_is_killed_and_new_mounts_are_there(self):
        path = os.path.join(self.root, "bin/busybox")
        pid = self.daemon()
        os.kill(pid, signal.SIGSTOP)
        readers = self.start_readers([path] * 3)
        kill(pid)
        for code, _, errors in self.finish(readers, 30):
            self.assertNotEqual(code, 0, errors)
        self.assertEqual(self.status()["keeper"]["restarts"], 1)
        self.assertIn("remounted", self.world.daemon_log())
        self.gets_an_error(path)
        self.serves_anew()

    def test_it_is_killed_while_it_is_busy_again_and_again(self):
        for _ in range(5):
            pid = self.daemon()
            walks = [subprocess.Popen(["find", self.root, "-type", "f", "-exec", "cat", "{}", "+"],
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for _ in range(3)]
            kill(pid)
            for walk in walks:
                walk.wait(30)
            self.serves_anew()
            drop_caches()

    def test_the_next_keeper_knows(self):
        keeper, pid = self.keeper(), self.daemon()
        kill(keeper)
        self.assertTrue(wait_until(lambda: self.keeper() not in (None, keeper), 20))
        kill(pid)
        self.gets_an_error(os.path.join(self.root, "bin/busybox"))
        self.serves_anew()

    def test_an_upgrade_is_refused_and_sigterm_ends_both(self):
        done = self.world.try_dsec("fs", "upgrade")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("cannot be handed over", done.stderr)
        keeper, pid = self.keeper(), self.daemon()
        kill(pid, signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not is_alive(keeper) and not is_alive(pid)))
        self.world.try_dsec("umount", self.root)
        self.mount("tree")

    def test_mounts_that_began_with_the_device_go_on_with_it(self):
        self.tearDown()
        self.configure("fuse")
        super().setUp()
        self.configure("io_uring")
        self.assertIn("took over", self.world.dsec("fs", "upgrade"))
        self.assertEqual(self.status()["transport"], "fuse")
        self.assertIn("transport_is_device", self.world.daemon_log())
        self.assertTrue(load.file_digest(os.path.join(self.root, "bin/busybox"), True))


if __name__ == "__main__":
    sys.exit(harness.main())
