#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same input gives the same bytes: in another store, another directory, with other numbers of threads."""
import shutil
import subprocess

import harness
from harness import World, WorldTest, need


class SameBytes(WorldTest):
    @classmethod
    def prepare(cls):
        need("umoci")
        cls.image = harness.small_image()

    def stores_of(self, *runs):
        """The files of one store for each (source, more arguments)."""
        stores = []
        for source, *more in runs:
            world = World("dsec-e2e-other")
            try:
                world.compose(source, "e", *more)
                stores.append(world.files(with_tmp=True))
            finally:
                world.close()
        return stores

    def check(self, *runs):
        first, *others = self.stores_of(*runs)
        self.assertGreater(len(first), 4)
        for other in others:
            self.assertEqual(sorted(first), sorted(other))
            self.assertEqual([path for path in first if first[path] != other[path]], [])

    def test_jobs_and_places_of_an_image(self):
        copy = self.world.path("somewhere", "else", "copy")
        shutil.copytree(self.image, copy)
        self.check((f"oci:{self.image}:v3", "-j1"), (f"oci:{copy}:v3", "-j2"), (f"oci:{copy}:v3", "-j7"))

    def test_jobs_and_places_of_a_directory(self):
        tree = self.world.path("zoo")
        harness.support("make_zoo.py", tree)
        copy = self.world.path("copy")
        # -x keeps xattrs; -a hard links, holes, times and owners
        subprocess.run(["cp", "-a", "--preserve=all", tree, copy], check=True)
        self.check((f"dir:{tree}", "-j1"), (f"dir:{copy}", "-j2"))

    def test_composing_twice_changes_nothing(self):
        self.world.compose(f"oci:{self.image}:v2", "twice")
        before = self.world.files(with_tmp=True)
        report = self.world.compose(f"oci:{self.image}:v2", "twice")
        self.assertEqual(self.world.files(with_tmp=True), before)
        self.assertTrue(all(layer["reused"] for layer in report["layers"]), report)


if __name__ == "__main__":
    harness.main()
