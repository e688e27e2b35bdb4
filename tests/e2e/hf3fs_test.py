#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A store on a mount of type fuse.hf3fs, with a stand-in for 3FS's library (tests/support/hf3fs_mock) that the daemon
loads. The mount is sshfs under that type, straight to an sftp-server on this machine; the library's own part is not
3FS but reads the same files."""
import json
import os
import random
import shutil
import subprocess
import time
import unittest

import harness
from harness import WorldTest

SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")
LIBRARY = os.environ.get("DSEC_HF3FS_MOCK", "")


class On3fs(WorldTest):
    @classmethod
    def prepare(cls):
        harness.need("sshfs")
        servers = [path for path in SFTP_SERVERS if os.access(path, os.X_OK)]
        if not servers:
            raise unittest.SkipTest("needs OpenSSH's sftp-server")
        if not os.path.exists(LIBRARY):
            raise unittest.SkipTest("DSEC_HF3FS_MOCK does not say where the stand-in for 3FS's library is")
        chance = random.Random(3)
        tree = cls.world.make_dir("tree")
        cls.contents = {f"file{i}": chance.randbytes(chance.randrange(1, 1 << 20)) for i in range(8)}
        for name, content in cls.contents.items():
            with open(os.path.join(tree, name), "wb") as file:
                file.write(content)
        cls.world.compose(f"dir:{tree}", "env")
        cls.plain_store = cls.world.store
        cls.mount_store(servers[0])

    @classmethod
    def mount_store(cls, server):
        script = cls.world.path("in-place-of-ssh")
        with open(script, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\nexec {server} -R\n")
        os.chmod(script, 0o755)
        cls.mounted = cls.world.make_dir("hf3fs")
        subprocess.run(["sshfs", f"here:{cls.world.tmp}", cls.mounted, "-o", f"ssh_command={script},ro,subtype=hf3fs"],
                       check=True, timeout=30)
        with open("/proc/self/mountinfo", encoding="utf-8") as mounts:
            if not any(cls.mounted in line and "fuse.hf3fs" in line for line in mounts):
                raise unittest.SkipTest("this sshfs does not let its type be chosen")

    def attach(self, store, library=LIBRARY, faults="", **settings):
        """What the status says of the chunks of a fresh daemon that serves the environment from `store`, after all of it was read."""
        self.report = self.world.path("report")
        self.world.env.update(DSEC_STORE=store, HF3FS_MOCK_ROOT=self.mounted, HF3FS_MOCK_ABORT="1", HF3FS_MOCK=faults,
                              HF3FS_MOCK_REPORT=self.report)
        shutil.rmtree(self.world.path("state"), ignore_errors=True)
        with open(self.world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.writelines(f'{key} = "{value}"\n' for key, value in {"hf3fs_library": library, **settings}.items())
        harness.drop_caches()
        mounted = self.world.mount("env")
        self.addCleanup(self.world.stop_daemon)
        self.addCleanup(self.world.umount)
        for name, content in self.contents.items():
            with open(os.path.join(mounted, name), "rb") as file:
                self.assertTrue(file.read() == content, f"{name} has other bytes")
        return json.loads(self.world.dsec("fs", "status", "--json"))["chunks"]

    def counts(self):
        """What the stand-in counted, once it says so."""
        shown = time.time()
        self.assertTrue(harness.wait_until(lambda: os.path.exists(self.report) and os.path.getmtime(self.report) > shown))
        with open(self.report, encoding="ascii") as file:
            return {name: int(value) for name, value in (line.split() for line in file)}

    def on_3fs(self):
        return os.path.join(self.mounted, "store")

    def test_a_store_on_3fs_is_read_through_rings_and_their_rules_are_kept(self):
        status = self.attach(self.on_3fs())
        self.assertEqual(status["io_engine"], "hf3fs")
        self.assertGreater(status["hf3fs"]["reads"], 0)
        self.assertEqual(status["hf3fs"]["fallbacks"], 0)
        counts = self.counts()
        self.assertGreater(counts["reaped"], 0)
        self.assertEqual(counts["breaches"], 0)

    def test_rings_that_fail_are_not_noticed_by_readers(self):
        status = self.attach(self.on_3fs(), faults="error_every=3,short_every=2,delay_us=200")
        self.assertEqual(status["io_engine"], "hf3fs")
        self.assertGreater(status["hf3fs"]["fallbacks"], 0)
        self.assertEqual(self.counts()["breaches"], 0)

    def test_without_the_library_the_mount_itself_is_read(self):
        status = self.attach(self.on_3fs(), library="libhf3fs_that_is_not_there.so")
        self.assertNotEqual(status["io_engine"], "hf3fs")
        self.assertIn("hf3fs_not_used", self.world.daemon_log())

    def test_a_store_elsewhere_does_not_look_for_3fs(self):
        status = self.attach(self.plain_store)
        self.assertNotEqual(status["io_engine"], "hf3fs")
        self.assertNotIn("hf3fs", status)

    def test_a_store_elsewhere_is_read_plainly_although_3fs_is_asked_for(self):
        status = self.attach(self.plain_store, io_engine="hf3fs")
        self.assertNotEqual(status["io_engine"], "hf3fs")
        self.assertIn("is not on 3FS", self.world.daemon_log())


if __name__ == "__main__":
    harness.main()
