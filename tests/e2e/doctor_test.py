#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`dsec doctor` tells the state of the host, quickly, and leaves nothing behind."""
import json
import os

import harness
from harness import WorldTest, mounts_below


class Doctor(WorldTest):
    def test_json_and_text_tell_the_same(self):
        done = self.world.try_dsec("doctor", "--json")
        report = json.loads(done.stdout)
        self.assertEqual(done.returncode, 0 if report["ok"] else 1)
        topics = [finding["topic"] for finding in report["findings"]]
        for topic in ("kernel", "fuse", "overlayfs", "crun", "cgroups", "store", "writable layers"):
            self.assertIn(topic, topics)
        text = self.world.try_dsec("doctor").stdout
        for finding in report["findings"]:
            self.assertIn(finding["topic"], text)
            if finding["level"] != "ok":
                self.assertTrue(finding["consequence"] and finding["remedy"], finding)

    def test_nothing_is_left(self):
        before = sorted(os.listdir(self.world.tmp))
        self.world.try_dsec("doctor")
        self.assertEqual(sorted(os.listdir(self.world.tmp)), before)
        self.assertEqual(mounts_below(self.world.tmp), [])

    def test_a_store_of_the_future_is_missing_and_told(self):
        self.world.make_dir("store")
        with open(self.world.path("store", "store.toml"), "w", encoding="utf-8") as file:
            file.write('version = 99\nuuid = "x"\nchunking = "fastcdc-16-64-256"\n')
        done = self.world.try_dsec("doctor")
        self.assertEqual(done.returncode, 1)
        self.assertIn("version 99", done.stdout)


if __name__ == "__main__":
    harness.main()
