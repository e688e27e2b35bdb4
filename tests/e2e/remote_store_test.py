#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A store on a network file system behind a link with delay and loss: sshfs, since the kernel needs nothing for it but
FUSE, straight to an sftp-server without ssh between them. The link is cut while files are read: readers wait and go on, or get EIO at the deadline and later the right bytes.

DSEC_NET_LONG=1 reads more and cuts the link more often."""
import errno
import os
import random
import shutil
import subprocess
import threading
import time
import unittest

import harness
from harness import WorldTest
from link import Link

LONG = os.environ.get("DSEC_NET_LONG") == "1"
SEED = int(os.environ.get("DSEC_NET_SEED", "20240611"))
FILES, FILE_BYTES = (40, 1 << 20) if LONG else (12, 192 << 10)
CUTS = 8 if LONG else 1
PORT = 2222

SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")


class RemoteStore(WorldTest):
    @classmethod
    def prepare(cls):
        harness.need("sshfs")
        servers = [path for path in SFTP_SERVERS if os.access(path, os.X_OK)]
        if not servers:
            raise unittest.SkipTest("needs OpenSSH's sftp-server")
        print(f"seed {SEED} (DSEC_NET_SEED)", flush=True)
        cls.random = random.Random(SEED)
        cls.link = Link(round_trip=0.020, loss=0.01, rate_bits=200e6, seed=SEED)
        cls.addClassCleanup(cls.link.close)
        cls.addClassCleanup(cls.end_world)  # first: nothing must be left that waits for the link
        tree = cls.world.make_dir("tree")
        cls.contents = {f"file{i:02}": cls.random.randbytes(FILE_BYTES) for i in range(FILES)}
        cls.contents["text"] = b"a line that is there many times\n" * 5000
        for name, content in cls.contents.items():
            with open(os.path.join(tree, name), "wb") as file:
                file.write(content)
        cls.world.compose(f"dir:{tree}", "env")
        shutil.rmtree(cls.world.path("state"), ignore_errors=True)
        cls.link.serve_far(PORT, servers[0], "-R")
        cls.mount_remote()

    @classmethod
    def end_world(cls):
        cls.link.mend()
        cls.world.close()

    @classmethod
    def mount_remote(cls):
        cls.remote = cls.world.make_dir("remote")
        command = ["sshfs", f"{Link.FAR_ADDRESS}:{cls.world.path('store')}", cls.remote, "-o", f"directport={PORT},ro"]
        subprocess.run(Link.inside(cls.link.near, *command), check=True, timeout=30)
        cls.world.env["DSEC_STORE"] = cls.remote

    def fresh(self, **settings):
        """A mount of the environment with nothing cached, and lazyfsd with these settings."""
        if self.world.daemon_pid() is not None:
            self.world.stop_daemon()
        shutil.rmtree(self.world.path("state"), ignore_errors=True)
        with open(self.world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.writelines(f'{key} = "{value}"\n' for key, value in settings.items())
        harness.drop_caches()
        mounted = self.world.mount("env")
        self.addCleanup(self.world.try_dsec, "umount", mounted)
        return mounted

    def check_read(self, mounted, name):
        with open(os.path.join(mounted, name), "rb") as file:
            self.assertTrue(file.read() == self.contents[name], f"{name} has other bytes")

    def test_every_byte_is_right_over_delay_and_loss(self):
        mounted = self.fresh()
        self.assertEqual(sorted(os.listdir(mounted)), sorted(self.contents))
        start = time.monotonic()
        for name in self.contents:
            self.check_read(mounted, name)
        total = sum(map(len, self.contents.values()))
        print(f"{total} bytes in {time.monotonic() - start:.2f} s", flush=True)

    def test_readers_wait_while_the_link_is_cut_and_go_on(self):
        mounted = self.fresh()
        self.addCleanup(self.link.mend)
        failures, left = [], list(self.contents)
        lock = threading.Lock()

        def read_some():
            while True:
                with lock:
                    if not left:
                        return
                    name = left.pop()
                try:
                    self.check_read(mounted, name)
                except (OSError, AssertionError) as error:
                    failures.append(f"{name}: {error}")

        readers = [threading.Thread(target=read_some) for _ in range(4)]
        for reader in readers:
            reader.start()
        for cut in range(CUTS):
            time.sleep(self.random.uniform(0.05, 0.15) if cut == 0 else 1.5)
            self.link.cut()
            time.sleep(2)
            self.assertTrue(LONG or any(reader.is_alive() for reader in readers), "nobody had to wait")
            self.link.mend()
        for reader in readers:
            reader.join(90)
            self.assertFalse(reader.is_alive(), "a reader hangs")
        self.assertEqual(failures, [])

    def test_past_the_deadline_there_is_an_error_and_later_the_right_bytes(self):
        mounted = self.fresh(read_deadline="2s")
        self.check_read(mounted, "file00")
        self.link.cut()
        self.addCleanup(self.link.mend)
        start = time.monotonic()
        with self.assertRaises(OSError) as raised:
            self.check_read(mounted, "file01")
        took = time.monotonic() - start
        self.assertEqual(raised.exception.errno, errno.EIO)
        self.assertGreater(took, 1.5)
        self.assertLess(took, 20)
        self.check_read(mounted, "file00")  # cached: needs no link
        self.link.mend()

        def works():
            try:
                self.check_read(mounted, "file01")
            except OSError:
                return False
            return True
        self.assertTrue(harness.wait_until(works, 60), "reads do not work again")
        for name in self.contents:
            self.check_read(mounted, name)


if __name__ == "__main__":
    harness.main()
