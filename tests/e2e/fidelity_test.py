#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mounted environment is the tree that others unpack from the same source, to the last bit of every attribute."""
import json
import os
import re
import subprocess

import harness
from harness import WorldTest, need, support

# umoci drops both when it unpacks: overlayfs's own xattrs, and xattrs without a value.
UMOCI_DROPS = ("xattrs:trusted.overlay.",)


def umoci_unpack(world, image, tag):
    bundle = world.path(f"bundle-{tag}")
    subprocess.run(["umoci", "unpack", "--image", f"{image}:{tag}", bundle], check=True, capture_output=True)
    return os.path.join(bundle, "rootfs")


class SmallImage(WorldTest):
    MODE = "tree"

    @classmethod
    def prepare(cls):
        need("umoci")
        cls.image = harness.small_image()

    def check_tag(self, tag, *ignored):
        self.world.compose(f"oci:{self.image}:{tag}", f"small:{tag}")
        mounted = self.world.mount(f"small:{tag}", f"mnt-{tag}", self.MODE)
        self.assert_same_tree(umoci_unpack(self.world, self.image, tag), mounted, *UMOCI_DROPS, *ignored)
        self.world.umount(f"mnt-{tag}")

    def test_one_layer(self):
        self.check_tag("v1")

    def test_every_kind_of_change(self):
        self.check_tag("v2")

    def test_opaque_directories_and_whiteouts(self):
        self.check_tag("v3")

    def test_quirks(self):
        # umoci gives directories that no entry describes the time at which it unpacks them.
        self.check_tag("quirks", "mtime")

    def test_squashed_is_the_same_tree(self):
        self.world.compose(f"oci:{self.image}:v3", "small:v3")
        self.world.compose(f"oci:{self.image}:v3", "small:squashed", "--squash")
        layered = self.world.mount("small:v3", "mnt-layered", self.MODE)
        squashed = self.world.mount("small:squashed", "mnt-squashed", self.MODE)
        self.assert_same_tree(layered, squashed)

    def listing_in_a_sandbox(self, tag):
        """Everything that stat(2) says of every file, and every content, as a command in a sandbox sees it."""
        script = "find . -xdev ! -type d -exec stat -c '%n %F %a %u:%g %s %Y %h %t:%T' {} +; " \
                 "find . -xdev -type d -exec stat -c '%n %F %a %u:%g %Y' {} +; find . -xdev -type f -exec sha256sum {} +"
        return sorted(self.world.dsec("run", "--rootfs-mode", self.MODE, "-w", "/srv", f"small:{tag}", "sh", "-c", script).splitlines())

    def test_a_sandbox_sees_the_same_as_in_the_other_mode(self):
        need("crun")
        self.world.compose(f"oci:{self.image}:v3", "small:v3")
        mine = self.listing_in_a_sandbox("v3")
        self.assertGreater(len(mine), 100)
        mode, self.MODE = self.MODE, "tree"
        theirs = self.listing_in_a_sandbox("v3")
        self.MODE = mode
        self.assertEqual(mine, theirs)


class SmallImageFromObjects(SmallImage):
    """The same through the kernel's overlayfs of the layers."""
    MODE = "objects"


class SmallImageFromMergedImages(SmallImage):
    """The same with all layers merged into one image."""
    MODE = "objects"
    MERGED = True

    @classmethod
    def prepare(cls):
        super().prepare()
        with open(cls.world.path("lazyfsd.toml"), "w", encoding="utf-8") as settings:
            settings.write('merged_roots = "always"\n')

    def tearDown(self):
        if not self.world.has_object_mode():
            return
        merged = json.loads(self.world.dsec("fs", "status", "--json"))["merged_images"]
        self.assertEqual(merged["failed"], 0)
        if "one_layer" not in self.id():
            self.assertGreater(merged["built"], 0)


class Zoo(WorldTest):
    """tests/support/make_zoo.py: every kind of entry there is."""

    # What GNU tar gets wrong when it unpacks: the times of directories in which it makes a hard link later on, and ACLs
    # that are given as xattrs. The archive and test_directory() say that we are right.
    TAR_ERRS = re.compile(r"hard/[abc/]*: mtime: |xattrs/acl(_dir)?: xattr system\.posix_acl_")

    def check_tar(self, form):
        archive = self.world.path(f"zoo-{form}.tar")
        support("make_zoo.py", "--tar", archive, "--format", form, "--max-xattr", "3000")
        unpacked = self.world.make_dir(f"tar-{form}")
        subprocess.run(["tar", "-x", "-p", "--same-owner", "--numeric-owner", "--xattrs", "--xattrs-include=*", "--acls", "-f", archive,
                        "-C", unpacked], check=True, capture_output=True)
        self.world.compose(f"tar:{archive}", f"zoo:{form}")
        lines = harness.treediff(unpacked, self.world.mount(f"zoo:{form}", f"mnt-{form}", "tree"))
        self.assertEqual([line for line in lines if not self.TAR_ERRS.match(line)], [])
        self.assertLess(len(lines), 10)

    def test_pax_archive(self):
        self.check_tar("pax")

    def test_gnu_archive(self):
        self.check_tar("gnu")

    def test_directory(self):
        tree = self.world.path("zoo")
        support("make_zoo.py", tree)
        self.world.compose(f"dir:{tree}", "zoo:dir")
        self.assert_same_tree(tree, self.world.mount("zoo:dir", "mnt-dir", "tree"))
        self.check_without_what_overlayfs_takes_for_its_own(tree)

    def check_without_what_overlayfs_takes_for_its_own(self, tree):
        refused = self.world.try_dsec("mount", "--rootfs-mode", "objects", "zoo:dir", self.world.make_dir("refused"))
        self.assertEqual(refused.returncode, 125)
        self.assertIn("object mode", refused.stderr)
        for directory, names, files in os.walk(os.fsencode(tree)):
            for path in (os.path.join(directory, name) for name in [b"", *names, *files]):
                for attribute in os.listxattr(path.rstrip(b"/"), follow_symlinks=False):
                    if attribute.startswith("trusted.overlay."):
                        os.removexattr(path.rstrip(b"/"), attribute, follow_symlinks=False)
        os.remove(os.path.join(tree, "special", "char_0_0"))
        os.remove(os.path.join(tree, "sparse", "3_GiB_with_8_KiB"))  # takes long to read
        self.world.compose(f"dir:{tree}", "zoo:plain")
        self.assert_same_tree(tree, self.world.mount("zoo:plain", "mnt-objects", "objects"))

    def test_directory_in_a_target(self):
        tree = self.world.path("zoo-target")
        support("make_zoo.py", tree)
        self.world.compose(f"dir:{tree}", "zoo:target", "--target", "/opt/zoo")
        mounted = self.world.mount("zoo:target", "mnt-target", "tree")
        self.assert_same_tree(tree, os.path.join(mounted, "opt/zoo"))
        self.assertEqual(os.listdir(mounted), ["opt"])


if __name__ == "__main__":
    harness.main()
