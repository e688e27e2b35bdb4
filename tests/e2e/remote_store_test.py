#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A store on a network file system behind a link with delay and loss: sshfs, since the kernel needs nothing for it but
FUSE, straight to an sftp-server without ssh between them. The link is cut while files are read: readers wait and go on, or get EIO at the deadline and later the right bytes.

DSEC_NET_LONG=1 reads more, cuts the link more often, and for half a minute."""
import errno
import json
import os
import random
import shutil
import signal
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
OUTAGE, DEADLINE = (30, 5) if LONG else (3, 1)  # seconds
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

    def fresh(self, mode="auto", **settings):
        """A mount of the environment with nothing cached, and lazyfsd with these settings."""
        if self.world.daemon_pid() is not None:
            self.world.stop_daemon()
        shutil.rmtree(self.world.path("state"), ignore_errors=True)
        with open(self.world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.writelines(f'{key} = "{value}"\n' for key, value in settings.items())
        harness.drop_caches()
        mounted = self.world.mount("env", mode=mode)
        self.addCleanup(self.world.try_dsec, "umount", mounted)
        return mounted

    def start_reading(self, mounted, *names):
        """Readers, one for each name, and the list that takes what they find wrong."""
        failures = []

        def read(name):
            try:
                self.check_read(mounted, name)
            except (OSError, AssertionError) as error:
                failures.append(f"{name}: {error}")

        readers = [threading.Thread(target=read, args=(name,)) for name in names]
        for reader in readers:
            reader.start()
        return readers, failures

    def end_reading(self, readers, failures):
        for reader in readers:
            reader.join(90)
            self.assertFalse(reader.is_alive(), "a reader hangs")
        self.assertEqual(failures, [])

    def sit_out(self, mounted, meanwhile=lambda: None):
        """Cuts the link for OUTAGE seconds, with readers that came at its beginning and in its middle; all wait, whatever
        happens meanwhile, and have the right bytes in the end."""
        self.link.cut()
        self.addCleanup(self.link.mend)
        first, failures = self.start_reading(mounted, "file02", "file03", "text")
        time.sleep(OUTAGE / 2)
        meanwhile()
        second, more = self.start_reading(mounted, "file03", "file04")
        time.sleep(OUTAGE / 2)
        self.assertTrue(all(reader.is_alive() for reader in first + second), ["somebody did not wait", failures, more])
        self.link.mend()
        mended = time.monotonic()
        self.end_reading(first, failures)
        self.end_reading(second, more)
        print(f"{OUTAGE} s without the store, then {time.monotonic() - mended:.2f} s to the last byte", flush=True)

    def failed_requests(self):
        return sum(request["eio"] for request in json.loads(self.world.dsec("fs", "stats", "--json"))["requests"].values())

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

    def test_an_outage_within_the_deadline_costs_time_only(self):
        for mode in ("tree", "objects"):
            with self.subTest(mode=mode):
                mounted = self.fresh(mode)
                self.check_read(mounted, "file00")
                self.sit_out(mounted)
                self.assertEqual(self.failed_requests(), 0)
                self.world.umount()

    def test_lazyfsd_may_die_in_an_outage(self):
        mounted = self.fresh()
        self.check_read(mounted, "file00")
        pid = self.world.daemon_pid()
        self.sit_out(mounted, meanwhile=lambda: os.kill(pid, signal.SIGKILL))
        self.assertNotEqual(self.world.daemon_pid(), pid)

    def test_past_the_deadline_each_read_fails_by_itself_until_the_store_is_back(self):
        mounted = self.fresh(read_deadline=f"{DEADLINE}s")
        self.check_read(mounted, "file00")
        facts = os.stat(os.path.join(mounted, "file05"))
        self.link.cut()
        self.addCleanup(self.link.mend)
        begin, answers = time.monotonic(), []
        while time.monotonic() < begin + OUTAGE:
            start = time.monotonic()
            with self.assertRaises(OSError) as raised:
                self.check_read(mounted, "file05")
            answers.append(time.monotonic() - start)
            self.assertEqual(raised.exception.errno, errno.EIO)
            start = time.monotonic()
            self.check_read(mounted, "file00")  # cached, as are names and attributes
            self.assertEqual(os.stat(os.path.join(mounted, "file05")), facts)
            self.assertEqual(sorted(os.listdir(mounted)), sorted(self.contents))
            self.assertLess(time.monotonic() - start, DEADLINE)
        print(f"{len(answers)} reads failed, each after {min(answers):.2f} to {max(answers):.2f} s", flush=True)
        self.assertGreater(min(answers), DEADLINE / 2)
        self.assertLess(max(answers), DEADLINE + 10)
        self.link.mend()
        self.assertTrue(harness.wait_until(lambda: self.reads(mounted, "file05"), 60), "reads do not work again")
        self.assertGreaterEqual(self.failed_requests(), len(answers))
        readers, failures = self.start_reading(mounted, *self.contents)
        self.end_reading(readers, failures)

    def reads(self, mounted, name):
        try:
            self.check_read(mounted, name)
        except OSError:
            return False
        return True

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
        self.assertTrue(harness.wait_until(lambda: self.reads(mounted, "file01"), 60), "reads do not work again")
        for name in self.contents:
            self.check_read(mounted, name)


if __name__ == "__main__":
    harness.main()
