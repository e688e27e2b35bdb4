#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How lazyfsd and its keeper begin and end."""
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, HERE)
import harness  # noqa: E402
from harness import drop_caches, wait_until  # noqa: E402
from keeper_test import KeeperTest, is_alive, kill  # noqa: E402


class Starts(KeeperTest):
    def setUp(self):
        pass

    def test_two_at_once_make_one(self):
        targets = [self.world.make_dir(f"mnt-{mode}") for mode in ("tree", "objects")]
        starts = [threading.Thread(target=self.world.dsec, args=("mount", "small", target)) for target in targets]
        for start in starts:
            start.start()
        for start in starts:
            start.join()
        for target in targets:
            self.assertTrue(os.listdir(target))
        command = [os.path.join(harness.BIN, "lazyfs-keeper"), "--store", self.world.store]
        third = subprocess.run(command, env=self.world.env, capture_output=True, text=True, timeout=30, check=False)
        self.assertEqual(third.returncode, 125, third.stderr)
        self.assertIn("another lazyfs-keeper", third.stderr)

    def test_idleness_ends_both(self):
        with open(self.world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.write('idle_exit = "1s"\n')
        self.addCleanup(os.remove, self.world.path("lazyfsd.toml"))
        self.mount("tree")
        keeper, pid = self.keeper(), self.daemon()
        time.sleep(1.5)
        self.assertEqual(self.daemon(), pid)  # something is attached
        self.world.umount("mnt-tree")
        self.assertTrue(wait_until(lambda: not is_alive(keeper) and not is_alive(pid)))
        self.assert_nothing_left()

    def test_a_runtime_directory_that_is_removed_ends_both(self):
        self.mount("tree")
        keeper, pid = self.keeper(), self.daemon()
        self.world.umount("mnt-tree")
        for directory, _, names in os.walk(self.world.path("run", "lazyfs")):
            if "lazyfsd.lock" in names:
                os.remove(os.path.join(directory, "lazyfsd.lock"))
                break
        self.assertTrue(wait_until(lambda: not is_alive(keeper) and not is_alive(pid)))
        self.assertEqual(harness.mounts_below(self.world.tmp), [])

    def test_a_service_manager_is_told_when_it_is_ready(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(self.world.path("notify"))
            listener.settimeout(20)
            command = [os.path.join(harness.BIN, "lazyfs-keeper"), "--store", self.world.store]
            with subprocess.Popen(command, env={**self.world.env, "NOTIFY_SOCKET": self.world.path("notify")}) as keeper:
                self.assertEqual(listener.recv(100), b"READY=1")
                self.assertEqual(self.keeper(), keeper.pid)
                keeper.terminate()
                self.assertEqual(keeper.wait(20), 0)
        os.remove(self.world.path("notify"))

    def test_doctor_knows_who_is_kept(self):
        self.assertIn("not running", self.finding())
        self.mount("tree")
        self.assertIn("running, 0 restarts", self.finding())
        kill(self.keeper())
        self.assertTrue(wait_until(lambda: "without its keeper" in self.finding(), 3))
        self.assertTrue(wait_until(lambda: "running, 0 restarts" in self.finding(), 20))

    def finding(self):
        findings = json.loads(self.world.try_dsec("doctor", "--json").stdout)["findings"]
        return next(finding["found"] for finding in findings if finding["topic"] == "lazyfsd")

    def test_on_a_kernel_that_cannot_resend_it_remounts_and_says_so(self):
        self.world.env["DSEC_KEEPER_RESEND"] = "never"
        self.addCleanup(self.world.env.pop, "DSEC_KEEPER_RESEND")
        root = self.mount("tree")
        self.assertIn("took over", self.world.dsec("fs", "upgrade"))  # nothing is in flight
        drop_caches()
        self.assertTrue(os.listdir(root))
        pid = self.daemon()
        os.kill(pid, signal.SIGSTOP)
        readers = self.start_readers([os.path.join(root, "bin/busybox")])
        time.sleep(0.5)
        kill(pid)
        self.assertNotEqual(0, self.finish(readers, 30)[0][0])
        self.assertIn("before Linux 6.9", self.world.daemon_log())
        self.world.umount("mnt-tree")
        self.assertTrue(os.listdir(self.mount("tree")))


if __name__ == "__main__":
    harness.main()
