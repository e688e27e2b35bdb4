#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What changed while lazyfsd served: its settings file has a mistake now, or its store is gone for a while."""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "e2e"))
sys.path.insert(0, HERE)
import harness  # noqa: E402
import load  # noqa: E402
from harness import drop_caches  # noqa: E402
from keeper_test import KeeperTest, kill  # noqa: E402


class WrongSettings(KeeperTest):
    def setUp(self):
        self.write("threads = 3\n")
        super().setUp()

    def write(self, text):
        with open(self.world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.write(text)

    def tearDown(self):
        os.remove(self.world.path("lazyfsd.toml"))
        super().tearDown()

    def read(self):
        drop_caches()
        return load.file_digest(os.path.join(self.root, "bin/busybox"), True)

    def test_an_upgrade_with_wrong_settings_interrupts_nothing(self):
        before, pid = self.read(), self.daemon()
        for text in ("threads = 0\n", "tread = 3\n", "threads = \n", 'node_cache = "maybe"\n'):
            self.write(text)
            refused = self.world.try_dsec("fs", "upgrade")
            self.assertNotEqual(refused.returncode, 0, text)
            self.assertIn("nothing was interrupted", refused.stderr)
            self.assertIn("lazyfsd.toml:1", refused.stderr)
            self.assertEqual(self.daemon(), pid)
            self.assertEqual(self.read(), before)

    def test_one_that_dies_goes_on_with_the_settings_it_had(self):
        before = self.read()
        self.write("threads = 0\n")
        for _ in range(2):
            pid = self.daemon()
            kill(pid)
            self.assertEqual(self.read(), before)
            self.assertNotEqual(self.daemon(), pid)
            self.assertIn("threads", self.status()["settings_problem"])
        self.assertIn("settings_of_before", self.world.daemon_log())
        self.assertIn("WARNING: it serves with settings from before", self.world.dsec("fs", "status"))
        kept = os.path.join(os.path.dirname(os.path.dirname(self.status()["attached"][0]["path"])), "lazyfsd.toml")
        with open(kept, encoding="ascii") as file:
            self.assertIn('threads = "3"', file.read())
        self.write("threads = 2\n")
        self.assertIn("took over", self.world.dsec("fs", "upgrade"))
        self.assertEqual(self.status()["settings_problem"], "")

    def test_a_first_start_with_wrong_settings_fails_whatever_was_before(self):
        self.world.umount("mnt-tree")
        self.world.dsec("fs", "stop")
        self.write("threads = 0\n")
        refused = self.world.try_dsec("mount", "small", self.root)
        self.assertNotEqual(refused.returncode, 0)
        self.write("threads = 3\n")
        self.mount("tree")


class StoreAway(KeeperTest):
    @classmethod
    def prepare(cls):
        super().prepare()
        with open(cls.world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.write('node_cache = "on"\n')

    def test_reads_of_what_is_not_here_wait_for_a_store_that_is_gone_for_a_while(self):
        away = self.world.store + ".away"
        path = os.path.join(self.root, "bin/busybox")
        self.world.dsec("fs", "evict", "--all")
        kill(self.daemon())  # no pack is open any more
        self.daemon()
        drop_caches()
        os.rename(self.world.store, away)
        try:
            readers = self.start_readers([path])
            time.sleep(3)  # longer than a missing pack is looked for
            self.assertIsNone(readers[0].poll())
        finally:
            os.rename(away, self.world.store)
        self.assertEqual(0, self.finish(readers)[0][0])


if __name__ == "__main__":
    harness.main()
