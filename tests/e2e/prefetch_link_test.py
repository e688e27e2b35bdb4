#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The first import of a program whose store is on sshfs behind 20 ms and 200 Mbit/s, without and with a recorded trace: how
many bytes come in relation to those that are used, and how long it takes (docs/decisions/0012)."""
import json
import os
import shutil
import subprocess
import unittest

import harness
from harness import WorldTest, need
from link import Link

PORT = 2222
SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")
PROGRAM = ("import asyncio, ctypes, decimal, email.mime.multipart, http.server, logging.config, "
           "multiprocessing.pool, sqlite3, ssl, tarfile, unittest.mock, urllib.request, xml.dom.minidom, xmlrpc.client, zipfile")


class PrefetchOverALink(WorldTest):
    @classmethod
    def prepare(cls):
        need("sshfs", "crun")
        servers = [path for path in SFTP_SERVERS if os.access(path, os.X_OK)]
        if not servers:
            raise unittest.SkipTest("needs OpenSSH's sftp-server")
        cls.world.compose(f"oci:{harness.big_image()}/debian:tools", "env")
        cls.used = cls.run_program("--record")["trace"]["stored_bytes"]
        cls.world.stop_daemon()
        cls.link = Link(round_trip=0.020, loss=0, rate_bits=200e6)
        cls.addClassCleanup(cls.link.close)
        cls.addClassCleanup(cls.world.close)  # first: nothing must be left that waits for the link
        cls.link.serve_far(PORT, servers[0], "-R")
        remote = cls.world.make_dir("remote")
        command = ["sshfs", f"{Link.FAR_ADDRESS}:{cls.world.store}", remote, "-o", f"directport={PORT},ro"]
        subprocess.run(Link.inside(cls.link.near, *command), check=True, timeout=30)
        cls.world.env["DSEC_STORE"] = remote
        print(f"stored {cls.world.stored_bytes()} bytes, used {cls.used}", flush=True)

    @classmethod
    def run_program(cls, *options):
        record = cls.world.path("record.json")
        cls.world.dsec("run", "--json-file", record, *options, "env", "python3", "-c", PROGRAM)
        with open(record, encoding="utf-8") as file:
            return json.load(file)

    def fresh(self, **settings):
        """A node that has the environment's metadata and none of its content."""
        def start(values):
            with open(self.world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
                file.writelines(f'{key} = "{value}"\n' for key, value in values.items())
        if self.world.daemon_pid() is not None:
            self.world.stop_daemon()
        harness.wait_until(lambda: not os.path.isdir(self.world.path("state")) or shutil.rmtree(self.world.path("state")), 5)
        start({"prefetch": "off", "record": "off"})
        self.world.mount("env")
        self.world.umount()
        self.world.stop_daemon()
        start(settings)
        harness.drop_caches()

    def measure(self, what):
        run = self.run_program()
        fetched = json.loads(self.world.dsec("fs", "status", "--json"))["chunks"]["node_cache"]["store_bytes"]
        print(f"{what}: {run['durations_ms']['run']:.0f} ms, {fetched} bytes fetched, {fetched / self.used:.2f} of those used, "
              f"{run['bytes_fetched']} by demand", flush=True)
        return run, fetched

    def test_little_more_is_fetched_than_used_and_a_trace_takes_the_waiting_away(self):
        self.fresh(prefetch="off")
        without, fetched = self.measure("no trace")
        self.assertLessEqual(fetched, 1.5 * self.used)
        self.fresh()
        with_trace, fetched = self.measure("trace")
        self.assertLessEqual(fetched, 1.2 * self.used)
        # A round trip is 20 ms and nearly all of them are saved: not a matter of a slow machine.
        self.assertLess(with_trace["durations_ms"]["run"], without["durations_ms"]["run"] / 2)
        self.fresh()
        self.world.dsec("prefetch", "env")
        run, _ = self.measure("after dsec prefetch")
        self.assertEqual(run["bytes_fetched"], 0)


if __name__ == "__main__":
    harness.main()
