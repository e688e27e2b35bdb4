#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The unit for systemd: it is one, and what it takes from the daemon is nothing that the daemon needs. tests/vm runs it."""
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import harness
from harness import WorldTest, need

SYSTEMD = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "conf", "systemd")
UNIT = os.path.join(SYSTEMD, "dsec-lazyfs@.service")
# Each makes a mount namespace (systemd.exec(5)), where what the keeper mounts would stay.
NAMESPACES = {"ProtectSystem", "ProtectHome", "ProtectKernelTunables", "ProtectKernelModules", "ProtectKernelLogs",
              "ProtectControlGroups", "ProtectProc", "ProcSubset", "PrivateTmp", "PrivateDevices", "PrivateMounts",
              "PrivateIPC", "ReadOnlyPaths", "ReadWritePaths", "InaccessiblePaths", "ExecPaths", "NoExecPaths",
              "BindPaths", "BindReadOnlyPaths", "TemporaryFileSystem", "RootDirectory", "RootImage", "MountImages",
              "ExtensionImages", "MountFlags", "DynamicUser", "LoadCredential", "SetCredential"}


def settings():
    """What the unit sets, by name."""
    found = {}
    with open(UNIT, encoding="utf-8") as text:
        for line in text.read().replace("\\\n", " ").splitlines():
            name, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                found.setdefault(name, []).append(value)
    return found


def capabilities():
    return settings()["CapabilityBoundingSet"][0].lower().replace("cap_", "").split()


def confined():
    """What systemd does to the service, in front of a command."""
    bounds = ",".join(["-all", *(f"+{name}" for name in capabilities())])
    return ["setpriv", "--no-new-privs", "--inh-caps", "-all", "--bounding-set", bounds]


def status_fields(lines):
    """Of /proc/PID/status."""
    return dict(line.rstrip("\n").split(":\t", 1) for line in lines if ":\t" in line)


class Unit(unittest.TestCase):
    def test_systemd_understands_it(self):
        need("systemd-analyze")
        with tempfile.TemporaryDirectory() as tmp:
            for program in (shutil.which("dsec", path=harness.BIN), os.path.join(SYSTEMD, "dsec-lazyfs-service")):
                os.symlink(program, os.path.join(tmp, os.path.basename(program)))
            instance = os.path.join(tmp, "dsec-lazyfs@var-lib-dsec-store.service")
            with open(UNIT, encoding="utf-8") as unit, open(instance, "w", encoding="utf-8") as copy:
                copy.write(unit.read().replace("/usr/local/bin", tmp))
            done = subprocess.run(["systemd-analyze", "verify", instance], capture_output=True, text=True, check=False)
            complaints = [line for line in (done.stdout + done.stderr).splitlines() if "dsec" in line]
            self.assertEqual((done.returncode, complaints), (0, []), done.stderr)

    def test_it_mounts_where_everybody_sees_it(self):
        self.assertEqual(NAMESPACES & settings().keys(), set())

    def test_threads_may_change_their_class_back(self):
        need("setpriv")
        script = ("import os; p = os.sched_param(0); os.sched_setscheduler(0, os.SCHED_IDLE, p);"
                  "os.sched_setscheduler(0, os.SCHED_OTHER, p); print(os.sched_getscheduler(0) == os.SCHED_OTHER)")
        command = [sys.executable, "-c", script]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            self.skipTest("no CAP_SYS_NICE here")
        done = subprocess.run([*confined(), *command], capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout, "True\n", done.stderr)


class Confined(WorldTest):
    """The daemon with the unit's capabilities, and clients with all of theirs."""

    @classmethod
    def prepare(cls):
        need("setpriv")
        world = cls.world
        world.compose(f"oci:{harness.small_image()}:v2", "small")
        with open(world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.write('node_cache = "on"\n')
        command = [*confined(), os.path.join(harness.BIN, "lazyfs-keeper"), "--store", world.store]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            listener.bind(world.path("notify"))
            listener.settimeout(20)
            with open(world.path("keeper.log"), "wb") as log:
                cls.keeper = subprocess.Popen(command, env={**world.env, "NOTIFY_SOCKET": world.path("notify")},
                                              stdout=log, stderr=log)
            cls.addClassCleanup(cls.end_keeper)
            listener.recv(100)

    @classmethod
    def end_keeper(cls):
        cls.keeper.terminate()
        cls.keeper.wait(20)

    def status_of_daemon(self):
        with open(f"/proc/{self.world.daemon_pid()}/status", encoding="ascii") as status:
            return status_fields(status)

    def test_it_has_what_the_unit_names_and_no_more(self):
        mine = subprocess.run([*confined(), "cat", "/proc/self/status"], capture_output=True, text=True, check=True)
        wanted, found = status_fields(mine.stdout.splitlines()), self.status_of_daemon()
        for field in ("CapEff", "CapBnd", "CapInh", "NoNewPrivs", "Seccomp"):
            self.assertEqual(found[field], wanted[field], field)
        self.assertIn("sys_nice", capabilities())
        with open("/proc/self/status", encoding="ascii") as own:
            self.assertNotEqual(found["CapEff"], status_fields(own)["CapEff"])

    def test_both_modes_show_the_same(self):
        tree = self.world.mount("small", "mnt-tree", mode="tree")
        self.addCleanup(self.world.umount, "mnt-tree")
        objects = self.world.mount("small", "mnt-objects", mode="objects")
        self.addCleanup(self.world.umount, "mnt-objects")
        lines = harness.treediff(tree, objects)
        self.assertEqual([line for line in lines if not harness.is_merged_directory(tree, line)], [])

    def test_commands_run(self):
        for mode in ("tree", "auto"):
            self.assertEqual(self.world.dsec("run", "--rootfs-mode", mode, "small", "sh", "-c", "echo new >/srv/new; cat /srv/new"),
                             "new\n")

    def test_what_was_read_is_in_the_cache_directory(self):
        target = self.world.mount("small", "mnt-read", mode="tree")
        self.addCleanup(self.world.umount, "mnt-read")
        with open(os.path.join(target, "bin", "busybox"), "rb") as file:
            size = len(file.read())
        cache = self.world.path("state", "cache")
        kept = [os.path.join(directory, name) for directory, _, names in os.walk(cache) for name in names]
        self.assertGreater(sum(os.stat(path).st_blocks * 512 for path in kept), size // 4, kept)

    def test_a_successor_of_either_has_the_same(self):
        wanted = self.status_of_daemon()["CapEff"]
        target = self.world.mount("small", "mnt-upgraded", mode="tree")
        self.addCleanup(self.world.umount, "mnt-upgraded")
        pid = self.world.daemon_pid()
        self.world.dsec("fs", "upgrade")
        self.assertNotEqual(self.world.daemon_pid(), pid)
        self.assertEqual(self.status_of_daemon()["CapEff"], wanted)
        self.assertTrue(os.listdir(target))


if __name__ == "__main__":
    harness.main()
