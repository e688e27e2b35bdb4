#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Object mode: names and attributes without the daemon, contents shared by what they are, in mounts and sandboxes."""
import json
import os
import random
import signal
import subprocess
import unittest

import harness
from harness import WorldTest, need

METADATA = ("lookup", "getattr", "readlink", "readdir", "readdirplus", "getxattr", "listxattr")


class Objects(WorldTest):
    MODE = "objects"
    SEED = 20240611

    @classmethod
    def prepare(cls):
        cls.random = random.Random(cls.SEED)
        cls.contents = {f"dir{i % 7}/file{i}": cls.random.randbytes(100 + 997 * i) for i in range(60)}
        cls.contents["dir0/large"] = cls.random.randbytes(3 << 20)
        cls.make_env("one", cls.contents)
        # Other layers with the same contents under other names, and one more.
        cls.make_env("two", {"other/" + name[::-1]: content for name, content in cls.contents.items()})
        if not cls.works():
            raise unittest.SkipTest("this kernel has no object mode")

    @classmethod
    def works(cls):
        cls.world.mount("one", "probe")
        cls.world.umount("probe")
        return json.loads(cls.world.dsec("fs", "status", "--json"))["object_mode"] == "yes"

    @classmethod
    def make_env(cls, name, contents):
        tree = cls.world.make_dir("tree-" + name)
        for path, content in contents.items():
            os.makedirs(os.path.dirname(os.path.join(tree, path)), exist_ok=True)
            with open(os.path.join(tree, path), "wb") as file:
                file.write(content)
        cls.world.compose(f"dir:{tree}", name)

    def tearDown(self):
        for directory in ("mnt", "second"):
            if os.path.ismount(self.world.path(directory)):
                self.world.umount(directory)

    def asked(self, before):
        """Requests since `before`, without zeros."""
        return {kind: count - before[kind] for kind, count in self.world.requests().items() if count != before[kind]}

    def test_automatic_is_objects_and_says_so(self):
        target = self.world.make_dir("mnt")
        record = json.loads(self.world.dsec("mount", "--json", "one", target))
        self.assertEqual(record["rootfs_mode"], "objects")
        self.world.umount()
        record = json.loads(self.world.dsec("mount", "--json", "--rootfs-mode", "tree", "one", target))
        self.assertEqual(record["rootfs_mode"], "tree")

    def test_a_walk_asks_the_daemon_nothing(self):
        mounted = self.world.mount("one", "mnt", "objects")
        harness.drop_caches()
        before = self.world.requests()
        listed = subprocess.run(["find", mounted, "-ls"], check=True, capture_output=True, text=True).stdout
        self.assertGreater(len(listed.splitlines()), len(self.contents))
        self.assertEqual(self.asked(before), {})

    def test_a_walk_in_a_sandbox_asks_the_daemon_nothing(self):
        need("crun", "umoci")
        self.world.compose(f"oci:{harness.small_image()}:v2", "small")
        script = ["run", "--rootfs-mode", "objects", "small", "sh", "-c", "find / -xdev -ls >/dev/null; echo done"]
        self.world.dsec(*script)  # the shell and find themselves are read
        before = self.world.requests()
        self.assertEqual(self.world.dsec(*script), "done\n")
        asked = self.asked(before)
        self.assertEqual({kind: asked.get(kind, 0) for kind in ("read", "readdir", "readdirplus", "readlink")},
                         dict.fromkeys(("read", "readdir", "readdirplus", "readlink"), 0))
        self.assertLess(sum(asked.get(kind, 0) for kind in METADATA), 10)  # the environment's own directory

    def test_contents_are_right_and_read_once_for_two_environments_of_different_layers(self):
        first = self.world.mount("one", "mnt", "objects")
        second = self.world.mount("two", "second", "objects")
        self.assertEqual(harness.read_all(first), self.contents)
        before = self.world.requests()
        self.assertEqual(sorted(harness.read_all(second).values()), sorted(self.contents.values()))
        self.assertEqual(self.asked(before).get("read", 0), 0)

    def test_a_mount_goes_on_when_the_daemon_is_killed(self):
        mounted = self.world.mount("one", "mnt", "objects")
        with open(os.path.join(mounted, "dir0", "large"), "rb") as file:
            self.assertEqual(file.read(1000), self.contents["dir0/large"][:1000])
            pid = self.world.daemon_pid()
            os.kill(pid, signal.SIGKILL)
            self.assertEqual(file.read(), self.contents["dir0/large"][1000:])
        harness.drop_caches()
        self.assertEqual(harness.read_all(mounted), self.contents)
        self.assertNotEqual(self.world.daemon_pid(), pid)

    def test_a_layer_that_is_there_twice(self):
        named = '[[layer]]\nname = "{0}@1"\n'
        sources = "".join(named.format(name) + f'from = "dir:tree-{name}"\n' for name in ("one", "two"))
        self.world.manifest(f'version = 1\nname = "once"\n{sources}')
        self.world.manifest('version = 1\nname = "twice"\n' + "".join(map(named.format, ("one", "two", "one"))))
        self.assert_same_tree(self.world.mount("twice", "second", "tree"), self.world.mount("twice", "mnt", "objects"))

    def test_an_attachment_goes_with_its_mount(self):
        self.world.mount("one", "mnt", "objects")
        owners = [env["owners"] for env in json.loads(self.world.dsec("fs", "status", "--json"))["attached"]]
        self.assertIn([f"mount:{self.world.path('mnt')}"], owners)
        self.world.umount()
        status = json.loads(self.world.dsec("fs", "status", "--json"))
        self.assertEqual([owner for env in status["attached"] for owner in env["owners"]], [])
        self.assertEqual(harness.mounts_below(self.world.path("mnt")), [])

    def test_the_mount_is_read_only_without_devices_and_set_user_id(self):
        mounted = self.world.mount("one", "mnt", "objects")
        with open("/proc/self/mountinfo", encoding="utf-8") as table:
            options = [line.split()[5] for line in table if line.split()[4] == mounted]
        self.assertEqual(len(options), 1)
        self.assertLessEqual({"ro", "nosuid", "nodev"}, set(options[0].split(",")))

    def run_record(self, *args):
        record = self.world.path("record.json")
        done = self.world.try_dsec("run", "--json-file", record, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(record, encoding="utf-8") as file:
            return done.stdout, json.load(file)

    def test_a_run_counts_what_it_fetched_whoever_else_has_the_content(self):
        need("crun", "umoci")
        self.world.compose(f"oci:{harness.small_image()}:v3", "counted")
        self.world.stop_daemon()
        self.world.mount("one", "mnt", "objects")
        _, first = self.run_record("counted", "true")
        self.assertEqual(first["rootfs_mode"], "objects")
        self.assertGreater(first["bytes_fetched"], 0)
        _, second = self.run_record("counted", "true")
        self.assertEqual(second["bytes_fetched"], 0)

    def test_what_is_written_in_a_sandbox_is_kept_as_in_tree_mode(self):
        need("crun", "umoci")
        self.world.compose(f"oci:{harness.small_image()}:v3", "small")
        changes = "echo more >> /etc/passwd; chmod 600 /etc/group; mv /srv/play /srv/moved; rm -r /usr; ln /bin/busybox /bin/two; ls -l /bin/two"
        kept = {}
        for mode in ("tree", "objects"):
            output, record = self.run_record("--rootfs-mode", mode, "--keep", "small", "sh", "-c", changes)
            kept[mode] = record
            self.assertIn("/bin/two", output)
        for mode in kept:
            self.addCleanup(self.world.dsec, "rm", kept[mode]["id"])
        lines = harness.treediff(kept["tree"]["upper"], kept["objects"]["upper"], "mtime", "xattrs:trusted.overlay.origin",
                                 "xattrs:trusted.overlay.uuid", "xattrs:trusted.overlay.impure")
        self.assertEqual(lines, [])


if __name__ == "__main__":
    harness.main()
