#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Merged images: made for environments that are used repeatedly, used instead of the layers, and never in the way."""
import json
import os
import random
import shutil
import signal
import subprocess
import unittest

import harness
from harness import WorldTest, need

QUOTA = 64 << 20
LAYERS = ("low", "middle", "high")


class Merged(WorldTest):
    MODE = "objects"
    MERGED = True
    SEED = 20240611

    @classmethod
    def prepare(cls):
        rng = random.Random(cls.SEED)
        cls.contents = {}
        for layer in LAYERS:
            tree = cls.world.make_dir("tree-" + layer)
            for i in range(40):
                path, content = f"dir{i % 5}/{layer if i % 3 else 'same'}{i}", rng.randbytes(10 + 997 * i)
                os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
                with open(os.path.join(tree, path), "wb") as file:
                    file.write(content)
                cls.contents[path] = content
        cls.compose("env", LAYERS)
        cls.compose("pair", LAYERS[:2])
        cls.compose("other", LAYERS[1:])
        cls.begin("off")
        cls.world.mount("env", "probe")
        cls.world.umount("probe")
        if json.loads(cls.world.dsec("fs", "status", "--json"))["object_mode"] != "yes":
            raise unittest.SkipTest("this kernel has no object mode")

    @classmethod
    def compose(cls, name, layers):
        text = f'version = 1\nname = "{name}"\n'
        cls.world.manifest(text + "".join(f'[[layer]]\nname = "{layer}@1"\nfrom = "dir:tree-{layer}"\n' for layer in layers))

    @classmethod
    def begin(cls, roots, quota=QUOTA):
        """A new daemon with these settings, and no merged images."""
        if cls.world.daemon_pid() is not None:
            cls.world.stop_daemon()
        shutil.rmtree(cls.images_dir(), ignore_errors=True)
        with open(cls.world.path("lazyfsd.toml"), "w", encoding="utf-8") as settings:
            settings.write(f'merged_roots = "{roots}"\nmerged_quota = "{quota}"\n')

    @classmethod
    def images_dir(cls, *names):
        return cls.world.path("state", "cache", "merged", *names)

    def setUp(self):
        self.addCleanup(self.umount_all)

    def umount_all(self):
        for directory in ("mnt", "second", "big"):
            if os.path.ismount(self.world.path(directory)):
                self.world.umount(directory)

    def figures(self):
        return json.loads(self.world.dsec("fs", "status", "--json"))["merged_images"]

    def wait_for(self, **expected):
        found = lambda: {name: self.figures()[name] for name in expected}
        if not harness.wait_until(lambda: found() == expected, 30):
            self.assertEqual(found(), expected)

    def use(self, env="env"):
        """Attaches and detaches once; says whether its root was a merged one."""
        merged = self.is_merged(self.world.mount(env, "mnt", "objects"))
        self.world.umount("mnt")
        return merged

    def is_merged(self, mounted):
        return os.stat(mounted).st_nlink > 1  # overlayfs counts no links of a directory of several layers

    def images(self):
        return sorted(name for name in os.listdir(self.images_dir()) if name.endswith(".erofs"))

    def test_always_shows_the_same_tree_with_its_link_counts_and_walks_ask_nothing(self):
        self.begin("always")
        mounted = self.world.mount("env", "mnt", "objects")
        self.assertTrue(self.is_merged(mounted))
        harness.drop_caches()
        before = self.world.requests()
        subprocess.run(["find", mounted, "-ls"], check=True, capture_output=True)
        self.assertEqual(self.world.requests(), before)
        self.assertEqual(harness.read_all(mounted), self.contents)
        self.assert_same_tree(self.world.mount("env", "second", "tree"), mounted)

    def test_always_in_a_sandbox(self):
        need("crun", "umoci")
        self.begin("always")
        self.world.compose(f"oci:{harness.small_image()}:v3", "small")
        script = "find / -xdev -ls >/dev/null; echo more >> /etc/passwd; rm -r /usr; tail -n 1 /etc/passwd"
        self.assertEqual(self.world.dsec("run", "--rootfs-mode", "objects", "small", "sh", "-c", script), "more\n")
        self.wait_for(built=1, failed=0)

    def test_names_that_overlayfs_would_take_for_objects_are_for_tree_mode_until_they_are_merged(self):
        for i in range(256):
            self.world.make_dir("tree-hexed", f"{i:02x}")
        self.compose("hexed", ("hexed", "low"))
        contents = {path: content for path, content in self.contents.items() if "low" in path}
        self.begin("auto")
        for expected in ("tree", "tree", "objects"):
            record = json.loads(self.world.dsec("mount", "--json", "hexed", self.world.make_dir("mnt")))
            self.assertEqual(record["rootfs_mode"], expected)
            found = harness.read_all(self.world.path("mnt"))
            self.assertEqual({path: content for path, content in found.items() if "low" in path}, contents)
            self.world.umount()
            self.wait_for(waiting=0)

    def test_automatic_makes_it_at_the_second_attach_and_uses_it_from_then_on(self):
        self.begin("auto")
        early = self.world.mount("env", "second", "objects")
        self.assertEqual(self.figures()["waiting"], 0)
        self.use()
        self.wait_for(waiting=0, built=1, failed=0, images=1)
        self.assertEqual(self.figures()["bytes"], os.path.getsize(self.images_dir(self.images()[0])))
        self.assertTrue(self.use())
        self.assertFalse(self.is_merged(early))
        self.assertEqual(harness.read_all(early), self.contents)
        self.assertIn("merged images: 1", self.world.dsec("fs", "stats"))

    def test_off_makes_none(self):
        self.begin("off")
        for _ in range(3):
            self.assertFalse(self.use())
        self.assertEqual(self.figures(), {"mode": "off", "images": 0, "bytes": 0, "quota_bytes": 0, "waiting": 0, "built": 0, "failed": 0})

    def test_an_image_outlives_the_daemon_that_made_it(self):
        self.begin("always")
        mounted = self.world.mount("env", "mnt", "objects")
        os.kill(self.world.daemon_pid(), signal.SIGKILL)
        self.assertEqual(harness.read_all(mounted), self.contents)
        self.world.umount()
        self.assertTrue(self.use())
        self.assertEqual(self.figures()["built"], 0)

    def test_a_damaged_image_is_made_again(self):
        self.begin("always")
        self.use()
        image = self.images_dir(self.images()[0])
        with open(image, "rb") as file:
            good = file.read()
        self.world.stop_daemon()
        for at in (1024, len(good) // 2, len(good) - 1):
            with open(image, "r+b") as file:
                file.seek(at)
                file.write(bytes([good[at] ^ 1]))
            mounted = self.world.mount("env", "mnt", "objects")
            self.assertEqual(harness.read_all(mounted), self.contents)
            with open(image, "rb") as file:
                self.assertEqual(file.read(), good)
            self.world.umount()
            self.world.stop_daemon()
        self.assertIn("merged_image_damaged", self.world.daemon_log())

    def test_the_quota_keeps_those_used_last(self):
        self.begin("always")
        for env in ("env", "pair"):
            self.use(env)
        size = sum(os.path.getsize(self.images_dir(name)) for name in self.images())
        first = self.images()
        self.begin("always", size)
        for env in ("env", "pair", "env", "other"):
            self.assertTrue(self.use(env))
        self.assertEqual(self.figures()["images"], 2)
        self.assertLessEqual(self.figures()["bytes"], size)
        self.assertEqual(len(set(first) & set(self.images())), 1)  # "env", used after "pair"
        self.assertTrue(self.use("pair"))

    def test_a_directory_that_cannot_be_written_is_one_line_in_the_log(self):
        self.begin("always")
        os.makedirs(self.images_dir())
        subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", self.images_dir()], check=True)
        self.addCleanup(subprocess.run, ["umount", self.images_dir()], check=True)
        self.addCleanup(self.world.stop_daemon)
        lines = self.world.daemon_log().count("merged_image")
        for env in ("env", "pair", "env"):
            self.assertFalse(self.use(env))
        self.assertEqual(harness.read_all(self.world.mount("env", "mnt", "objects")), self.contents)
        self.assertEqual(self.world.daemon_log().count("merged_image") - lines, 1)
        self.world.umount()

    def test_a_full_disk_keeps_nothing_half(self):
        self.begin("always")
        os.makedirs(self.images_dir())
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", self.images_dir()], check=True)
        self.addCleanup(subprocess.run, ["umount", self.images_dir()], check=True)
        self.addCleanup(self.world.stop_daemon)
        mounted = self.world.mount("env", "mnt", "objects")
        self.assertEqual(harness.read_all(mounted), self.contents)
        self.assertEqual(self.figures()["failed"], 1)
        self.assertEqual((self.images(), os.listdir(self.images_dir("tmp"))), ([], []))
        self.world.umount()

    def test_upgrades_while_it_is_made_and_after(self):
        self.make_big_env()
        self.begin("auto")
        mounted = self.world.mount("env", "second", "objects")
        for _ in range(2):
            self.use_big()
        pid = self.world.daemon_pid()
        self.world.dsec("fs", "upgrade")
        self.assertNotEqual(self.world.daemon_pid(), pid)
        self.assertEqual(harness.read_all(mounted), self.contents)
        for _ in range(2):
            self.use_big()
        self.wait_for(waiting=0, images=1)
        self.world.dsec("fs", "upgrade")
        self.assertTrue(self.use_big())
        self.assertEqual(harness.read_all(mounted), self.contents)

    def test_killed_while_it_is_made_leaves_nothing_half(self):
        self.make_big_env()
        for _ in range(3):
            self.begin("auto")
            os.makedirs(self.images_dir("tmp"))
            with open(self.images_dir("tmp", "w-abcdef"), "wb") as file:
                file.write(b"half")
            for _ in range(2):
                self.use_big()
            os.kill(self.world.daemon_pid(), signal.SIGKILL)
            for _ in range(2):
                self.use_big()
            self.wait_for(waiting=0, images=1, failed=0)
            self.assertEqual(os.listdir(self.images_dir("tmp")), [])
            self.assertTrue(self.use_big())

    def make_big_env(self):
        """One that takes a while to merge; made once."""
        if os.path.exists(self.world.path("tree-wide")):
            return
        for layer in ("wide", "wider"):
            for d in range(100):
                self.world.make_dir("tree-" + layer, f"dir{d}")
                for i in range(200):
                    with open(self.world.path("tree-" + layer, f"dir{d}", f"{layer}{i}"), "wb"):
                        pass
        self.compose("large", ("wide", "wider"))

    def use_big(self):
        merged = self.is_merged(self.world.mount("large", "big", "objects"))
        self.world.umount("big")
        return merged


if __name__ == "__main__":
    harness.main()
