#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A mounted environment is the tree that others unpack from the same source, to the last bit of every attribute."""
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
    @classmethod
    def prepare(cls):
        need("umoci")
        cls.image = harness.small_image()

    def check_tag(self, tag, *ignored):
        self.world.compose(f"oci:{self.image}:{tag}", f"small:{tag}")
        mounted = self.world.mount(f"small:{tag}", f"mnt-{tag}")
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
        layered = self.world.mount("small:v3", "mnt-layered")
        squashed = self.world.mount("small:squashed", "mnt-squashed")
        self.assert_same_tree(layered, squashed)


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
        lines = harness.treediff(unpacked, self.world.mount(f"zoo:{form}", f"mnt-{form}"))
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
        self.assert_same_tree(tree, self.world.mount("zoo:dir", "mnt-dir"))

    def test_directory_in_a_target(self):
        tree = self.world.path("zoo-target")
        support("make_zoo.py", tree)
        self.world.compose(f"dir:{tree}", "zoo:target", "--target", "/opt/zoo")
        mounted = self.world.mount("zoo:target", "mnt-target")
        self.assert_same_tree(tree, os.path.join(mounted, "opt/zoo"))
        self.assertEqual(os.listdir(mounted), ["opt"])


if __name__ == "__main__":
    harness.main()
