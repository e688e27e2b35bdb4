#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A real image (Debian with python3, git and gcc): the same tree, read lazily, stored once, and readable by others."""
import json
import os
import subprocess
import unittest

import harness
from harness import WorldTest, need

TAGS = ("base", "tools", "edited", "edited2")


class BigImage(WorldTest):
    @classmethod
    def prepare(cls):
        need("umoci", "skopeo")
        cls.fixture = harness.big_image()
        cls.image = os.path.join(cls.fixture, "debian")
        cls.reports = {tag: cls.world.compose(f"oci:{cls.image}:{tag}", f"debian:{tag}") for tag in TAGS}

    # --- the same tree ---

    def check_tag(self, tag):
        bundle = self.world.path(f"bundle-{tag}")
        subprocess.run(["umoci", "unpack", "--image", f"{self.image}:{tag}", bundle], check=True, capture_output=True)
        self.addCleanup(subprocess.run, ["rm", "-rf", bundle], check=False)
        mounted = self.world.mount(f"debian:{tag}", f"mnt-{tag}", "tree")
        self.addCleanup(self.world.umount, f"mnt-{tag}")
        # umoci drops overlayfs's own xattrs when it unpacks.
        self.assert_same_tree(os.path.join(bundle, "rootfs"), mounted, "xattrs:trusted.overlay.", *self.ignored(tag))
        self.check_object_mode(tag, mounted)

    def check_object_mode(self, tag, in_tree_mode):
        """The same names and attributes; contents are compared by fidelity_test.py and take long here."""
        in_object_mode = self.world.mount(f"debian:{tag}", f"obj-{tag}", "objects")
        self.addCleanup(self.world.umount, f"obj-{tag}")
        lines = harness.treediff(in_tree_mode, in_object_mode, "content")
        self.assertEqual([line for line in lines if not harness.is_merged_directory(in_tree_mode, line)], [])

    @staticmethod
    def ignored(tag):
        # The third layer of edited2 has no entries for directories: umoci gives them the time at which it unpacks.
        return ("mtime",) if tag == "edited2" else ()

    def test_tree_of_base(self):
        self.check_tag("base")

    def test_tree_of_tools(self):
        self.check_tag("tools")

    def test_tree_of_edited(self):
        self.check_tag("edited")

    def test_tree_of_edited2(self):
        self.check_tag("edited2")

    def test_docker_archive_is_the_same_environment(self):
        archive = os.path.join(self.fixture, "docker-archive.tar")
        report = self.world.compose(f"docker-archive:{archive}", "debian:docker")
        self.assertEqual([layer["digest"] for layer in report["layers"]],
                         [layer["digest"] for layer in self.reports["edited"]["layers"]])
        self.assertEqual(report["pack_bytes"], 0)

    # --- lazily ---

    def run_python(self):
        record = self.world.path("record.json")
        done = self.world.try_dsec("run", "--json-file", record, "debian:tools", "python3", "-c", "import json, ssl; print(1)")
        self.assertEqual((done.returncode, done.stdout), (0, "1\n"), done.stderr)
        with open(record, encoding="utf-8") as file:
            return json.load(file)["bytes_fetched"]

    def stored_bytes_of(self, name):
        return json.loads(self.world.dsec("env", "inspect", "--json", name))["stored_bytes"]

    def test_a_command_reads_a_small_part_once(self):
        need("crun")
        self.world.stop_daemon()
        first = self.run_python()
        stored = self.stored_bytes_of("debian:tools")
        print(f"python3 fetched {first} of {stored} bytes: {100 * first / stored:.1f} %")
        self.assertGreater(first, 0)
        self.assertLess(first, stored / 5)
        self.assertEqual(self.run_python(), 0)

    # --- once ---

    def test_a_change_stores_about_what_changed(self):
        base = self.reports["base"]["pack_bytes"] + self.reports["tools"]["pack_bytes"]
        added = self.reports["edited2"]["pack_bytes"]
        print(f"edited2 added {added} bytes to {base}: {100 * added / base:.1f} %")
        self.assertLess(added, base / 20)  # 1 % of the bytes changed
        self.assertEqual([layer["digest"] for layer in self.reports["edited2"]["layers"][:2]],
                         [layer["digest"] for layer in self.reports["tools"]["layers"]])

    def test_replacing_one_layer_of_a_manifest_writes_no_pack_for_the_others(self):
        kit = self.world.make_dir("kit")
        manifest = ('version = 1\nname = "replaced"\n[[layer]]\nname = "debian@tools"\n{}\n'
                    '[[layer]]\nname = "kit@1"\nfrom = "dir:kit"\ntarget = "/opt/kit"\n')
        with open(os.path.join(kit, "tool"), "w", encoding="utf-8") as file:
            file.write("one")
        first = self.world.manifest(manifest.format(f'from = "oci:{self.image}:tools"'))
        with open(os.path.join(kit, "tool"), "w", encoding="utf-8") as file:
            file.write("two")
        packs = set(self.world.packs())
        second = self.world.manifest(manifest.format(""))
        self.assertEqual(second["layers"][:2], [dict(layer, reused=True, source=second["layers"][0]["source"])
                                                for layer in first["layers"][:2]])
        self.assertEqual(len(set(self.world.packs()) - packs), 1)
        self.assertLess(second["pack_bytes"], 1000)

    def test_everything_is_good(self):
        self.world.dsec("store", "check", timeout=600)
        self.assertEqual(os.listdir(os.path.join(self.world.store, "tmp")), [])

    # --- readable by others ---

    def images(self):
        for directory, _, names in os.walk(os.path.join(self.world.store, "layers")):
            for name in names:
                if name.endswith(".erofs"):
                    yield os.path.join(directory, name)

    def test_fsck_erofs_takes_every_layer(self):
        need("fsck.erofs")
        for image in self.images():
            done = subprocess.run(["fsck.erofs", image], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_kernel_mounts_every_layer(self):
        with open("/proc/filesystems", encoding="utf-8") as file:
            if "\terofs\n" not in file.read():
                raise unittest.SkipTest("this kernel has no EROFS")
        target = self.world.make_dir("erofs")
        inodes = 0
        for image in self.images():
            # In a mount namespace of its own, which takes the mount and the loop device with it.
            script = 'mount -t erofs -o loop,ro "$1" "$2" && find "$2" -ls | wc -l'
            done = subprocess.run(["unshare", "-m", "sh", "-ec", script, "sh", image, target], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            inodes += int(done.stdout)
        self.assertGreater(inodes, 10000)


if __name__ == "__main__":
    harness.main()
