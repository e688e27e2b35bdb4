#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Archives that attack whoever unpacks them (tests/support/hostile_tars.py), through `dsec compose`."""
import hashlib
import json
import os
import subprocess

import harness
from harness import WorldTest, support

SECONDS = 60  # for one case; most take a tenth of one


def surroundings(world):
    """What no case may touch: everything beside the store, and what the archives aim at."""
    seen = {}
    for directory, folders, files in os.walk(world.tmp):
        if directory == world.tmp:
            folders[:] = [folder for folder in folders if folder not in ("store", "run", "state", "layouts", "mnt")]
        for name in folders + files:
            path = os.path.join(directory, name)
            seen[path] = os.lstat(path).st_mtime_ns
    for path in ("/escaped", "/tmp/escaped", os.path.join(os.path.dirname(world.tmp), "escaped")):
        seen[path] = os.path.lexists(path)
    for path in ("/etc/passwd", "/etc/shadow"):
        with open(path, "rb") as file:
            seen[path] = hashlib.sha256(file.read()).hexdigest()
    return seen


def layout_of(archive, directory):
    """An OCI layout with a tar as its one layer: there whiteout names have a meaning, which they have not in a plain tar."""
    def put(data):
        digest = hashlib.sha256(data).hexdigest()
        path = os.path.join(directory, "blobs", "sha256", digest)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return {"digest": f"sha256:{digest}", "size": len(data)}

    with open(archive, "rb") as file:
        layer = put(file.read()) | {"mediaType": "application/vnd.oci.image.layer.v1.tar"}
    config = put(json.dumps({"architecture": "amd64", "os": "linux",
                             "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]}}).encode())
    manifest = put(json.dumps({"schemaVersion": 2, "layers": [layer], "config": config | {
        "mediaType": "application/vnd.oci.image.config.v1+json"}}).encode())
    manifest["mediaType"] = "application/vnd.oci.image.manifest.v1+json"
    for name, document in (("index.json", {"schemaVersion": 2, "manifests": [manifest]}),
                           ("oci-layout", {"imageLayoutVersion": "1.0.0"})):
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            json.dump(document, file)
    return f"oci:{directory}"


class Hostile(WorldTest):
    @classmethod
    def prepare(cls):
        support("hostile_tars.py", cls.world.path("cases"))
        with open(cls.world.path("cases", "cases.json"), encoding="utf-8") as file:
            cls.cases = json.load(file)
        tree = cls.world.make_dir("good")
        with open(os.path.join(tree, "file"), "w", encoding="utf-8") as file:
            file.write("good")
        cls.world.compose(f"dir:{tree}", "good")
        cls.world.make_dir("layouts")

    def compose(self, case):
        path = self.world.path("cases", case["file"])
        name = os.path.basename(path).split(".")[0]
        is_whiteout = case["format"] == "tar" and name.startswith("whiteout_")
        source = layout_of(path, self.world.path("layouts", name)) if is_whiteout else f"{case['format']}:{path}"
        try:
            return self.world.try_dsec("compose", "--from", source, "--name", "case", timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.fail(f"took more than {SECONDS} s")

    def check_message(self, case, done):
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertTrue(done.stderr.startswith("dsec: "), done.stderr)
        self.assertLess(len(done.stderr), 4000)
        self.assertTrue(done.stderr.isprintable() or "\n" in done.stderr)
        self.assertNotIn("\x1b", done.stderr)
        # Every message names the archive at least; the entry or blob in it is in most of them.
        self.assertIn(os.path.basename(case["file"]).split(".")[0], done.stderr)

    def test_attacks_are_refused(self):
        before = self.world.files(with_tmp=True)
        around = surroundings(self.world)
        for case in self.cases:
            if case["expect"] != "reject":
                continue
            with self.subTest(case["file"], why=case["why"]):
                self.check_message(case, self.compose(case))
                self.assertEqual(self.world.files(with_tmp=True), before, "the store changed")
        self.assertEqual(surroundings(self.world), around)

    def test_oddities_are_contained(self):
        around = surroundings(self.world)
        taken = 0
        for case in self.cases:
            if case["expect"] == "reject":
                continue
            with self.subTest(case["file"], why=case["why"]):
                done = self.compose(case)
                if done.returncode != 0:
                    self.check_message(case, done)
                    continue
                taken += 1
                self.look_at_tree()
        self.assertGreater(taken, 10)
        self.world.dsec("store", "check")
        self.assertEqual(surroundings(self.world), around)

    def look_at_tree(self):
        """The environment mounts, and every name of it can be looked at. find(1) can go deeper than any path is long."""
        mounted = self.world.mount("case")
        try:
            done = subprocess.run(["find", mounted, "-ls"], capture_output=True, timeout=SECONDS)
            self.assertEqual((done.returncode, done.stderr), (0, b""))
        finally:
            self.world.umount()


if __name__ == "__main__":
    harness.main()
