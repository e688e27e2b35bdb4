#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The store hangs: nothing that is asked of it comes back, and nobody who asked can be killed. lazyfsd may die or be
replaced all the same, and may be looked at. The keeper is told to be impatient, so that an outage of seconds is longer
than it would wait for a lazyfsd that cannot be started."""
import glob
import hashlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import hanging_store  # noqa: E402
import harness  # noqa: E402
from harness import WorldTest, wait_until  # noqa: E402

PATIENCE = 6  # seconds; longer than the pause between two signs of life
CLI_SECONDS = 10  # of a command that need not wait for the store
FILES, FILE_BYTES = 6, 300000


class OutageTest(WorldTest):
    @classmethod
    def prepare(cls):
        tree = cls.world.make_dir("tree")
        cls.contents = {}
        for i in range(FILES):
            cls.contents[f"file{i}"] = os.urandom(FILE_BYTES)
            with open(os.path.join(tree, f"file{i}"), "wb") as file:
                file.write(cls.contents[f"file{i}"])
        cls.world.store = cls.world.path("exported", "store")
        cls.world.env["DSEC_STORE"] = cls.world.store
        cls.env = cls.world.compose(f"dir:{tree}", "env")["env"]
        with open(os.path.join(tree, "more"), "wb") as file:
            file.write(b"more")
        cls.other = cls.world.compose(f"dir:{tree}", "other")["env"]
        cls.world.stop_daemon()
        cls.remote = hanging_store.HangingDirectory(cls.world.path("exported"), cls.world.make_dir("remote"))
        cls.addClassCleanup(cls.remote.close)
        cls.addClassCleanup(cls.remote.go_on)
        os.symlink(cls.world.path("remote", "store"), cls.world.path("link"))
        cls.world.env.update(DSEC_STORE=cls.world.path("link"), DSEC_KEEPER_PATIENCE=f"{PATIENCE}s")

    def setUp(self):
        self.readers = []
        self.addCleanup(self.end)
        self.root = self.world.mount("env", mode="tree")
        self.check("file0")
        self.begin = self.status()

    def end(self):
        self.remote.go_on()
        for reader in self.readers:
            reader.kill()
            reader.communicate()
        self.world.try_dsec("umount", self.world.path("mnt"))
        self.world.try_dsec("fs", "stop", "--force")
        self.assertTrue(wait_until(lambda: not self.processes(), 10), self.processes())
        self.assertEqual(harness.mounts_below(self.world.path("run")), [])

    def processes(self):
        """But for sshfs itself."""
        ours = {self.remote.server.pid}
        return [pid for pid in harness.processes_of(self.world.path("run")) if pid not in ours]

    def check(self, name):
        with open(os.path.join(self.root, name), "rb") as file:
            self.assertEqual(file.read(), self.contents[name])

    def status(self):
        return json.loads(self.world.dsec("fs", "status", "--json", timeout=CLI_SECONDS))

    def log(self):
        """Without a look into the mounts, which nobody may serve."""
        text = ""
        for path in glob.glob(self.world.path("run", "lazyfs", "*", "lazyfsd.log")):
            with open(path, encoding="utf-8", errors="replace") as file:
                text += file.read()
        return text

    def start_reading(self, name):
        """A process, since it cannot be ended while its read waits for lazyfsd."""
        program = "import hashlib, sys; print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())"
        reader = subprocess.Popen([sys.executable, "-c", program, os.path.join(self.root, name)],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.readers.append(reader)
        return reader

    def end_reading(self, reader, name):
        out, err = reader.communicate(timeout=60)
        self.assertEqual((out.strip(), err), (hashlib.sha256(self.contents[name]).hexdigest(), ""))

    def hang_a_reader(self):
        """The store hangs from now on, and so does a thread of lazyfsd."""
        self.remote.hang()
        reader = self.start_reading("file1")
        self.assertTrue(wait_until(lambda: self.in_flight() > 0, 10), "nothing hangs: nothing was tested")
        return reader

    def in_flight(self):
        return len(json.loads(self.world.dsec("fs", "inflight", "--json", timeout=CLI_SECONDS))["requests"])

    def check_served_through_the_outage(self, reader):
        """Another lazyfsd serves what is on this node, for longer than the keeper is patient; then all of it."""
        self.assertTrue(wait_until(lambda: self.status()["pid"] != self.begin["pid"], 15), self.log())
        after = self.status()
        self.assertEqual(after["attached"], self.begin["attached"])
        self.assertEqual(after["store_check"]["state"], "waiting")
        self.assertIn("the store does not answer", self.world.dsec("fs", "status", timeout=CLI_SECONDS))
        self.assertTrue(os.path.exists(f"/proc/{self.begin['pid']}"), "the old one could be killed: nothing was tested")
        self.assertEqual(after["chunks"]["node_cache"]["trouble"], "", "the dead one still has the node cache")
        self.assertTrue(after["chunks"]["node_cache"]["used"])
        harness.drop_caches()
        self.check("file0")
        time.sleep(PATIENCE + 2)
        self.assertIsNone(reader.poll(), reader.stderr)
        self.assertEqual(self.status()["pid"], after["pid"])
        self.remote.go_on()
        self.end_reading(reader, "file1")
        self.check("file2")
        self.assertTrue(wait_until(lambda: self.status()["store_check"]["state"] == "same", 20))
        self.assertEqual(self.status()["keeper"]["pid"], self.begin["keeper"]["pid"])
        self.assertTrue(wait_until(lambda: not os.path.exists(f"/proc/{self.begin['pid']}"), 10),
                        "nobody reaps who was left behind")
        self.assertIn("store_is_the_same", self.log())


class Deaths(OutageTest):
    def test_a_death_of_lazyfsd(self):
        reader = self.hang_a_reader()
        os.kill(self.begin["pid"], signal.SIGKILL)
        self.check_served_through_the_outage(reader)


    def test_a_successor_that_has_to_ask_the_store_is_left_behind_and_another_one_tried(self):
        self.assertTrue(self.forget("store.toml"))
        self.remote.hang()
        reader = self.start_reading("file0")
        os.kill(self.begin["pid"], signal.SIGKILL)
        self.assertTrue(wait_until(lambda: "lazyfsd_not_started" in self.log(), PATIENCE + 10), self.log())
        self.assertIn("lazyfsd_left_behind", self.log())
        time.sleep(1)
        self.remote.go_on()
        self.end_reading(reader, "file0")
        self.assertEqual(self.status()["keeper"]["pid"], self.begin["keeper"]["pid"])

    def forget(self, name):
        for path in glob.glob(self.world.path("run", "lazyfs", "*", name)):
            os.remove(path)
            return True
        return False


class OutageUpgrades(OutageTest):
    def ask_without_waiting(self, request):
        """By a connection of its own, which is not answered while the store hangs."""
        connection = socket.socket(socket.AF_UNIX)
        self.addCleanup(connection.close)
        connection.connect(glob.glob(self.world.path("run", "lazyfs", "*", "control"))[0])
        connection.sendall(json.dumps(request).encode() + b"\n")

    def test_an_upgrade_of_lazyfsd(self):
        reader = self.hang_a_reader()
        self.ask_without_waiting({"op": "attach", "env": self.other, "view": "plain", "owner": "test", "leased": True})
        time.sleep(0.5)
        self.assertIn("took over", self.world.dsec("fs", "upgrade", timeout=60))
        self.check_served_through_the_outage(reader)


class Looks(OutageTest):
    def test_what_is_there_to_see_what_hangs_does_not_hang(self):
        second = self.world.mount("env", "second", mode="tree")
        reader = self.hang_a_reader()
        file = os.path.join(self.root, "file0")
        for command in (["fs", "status"], ["fs", "stats"], ["fs", "inflight"], ["fs", "top", "--iterations", "1"],
                        ["fs", "info", file], ["ps"], ["fs", "evict"]):
            with self.subTest(command=command):
                done = self.world.try_dsec(*command, timeout=CLI_SECONDS)
                self.assertEqual(done.returncode, 0, done.stderr)
        done = self.world.try_dsec("doctor", "--json", timeout=CLI_SECONDS)
        findings = {finding["topic"]: finding for finding in json.loads(done.stdout)["findings"]}
        self.assertIn("does not answer", findings["store"]["found"])
        self.assertIn("running", findings["lazyfsd"]["found"])
        self.world.dsec("umount", second, timeout=CLI_SECONDS)
        self.remote.go_on()
        reader.communicate(timeout=60)

    def test_one_store_has_one_lazyfsd_however_it_is_called(self):
        for spelling in (self.world.path("link"), self.world.path("remote", "store"), self.world.path("remote", ".", "store/")):
            done = json.loads(self.world.dsec("fs", "status", "--json", "--store", spelling))
            self.assertEqual(done["pid"], self.begin["pid"])
        self.remote.hang()
        for spelling in (self.world.path("link"), self.world.path("remote", "store"), self.world.path("remote", ".", "store/")):
            done = json.loads(self.world.dsec("fs", "status", "--json", "--store", spelling, timeout=CLI_SECONDS))
            self.assertEqual(done["pid"], self.begin["pid"])

    def test_lazyfsd_can_be_stopped(self):
        reader = self.hang_a_reader()
        self.world.dsec("fs", "stop", "--force", timeout=30)
        self.assertNotEqual(0, reader.wait(30))
        self.assertEqual(harness.mounts_below(self.world.path("run")), [])
        done = self.world.try_dsec("fs", "status", timeout=CLI_SECONDS)
        self.assertEqual((done.returncode, "does not run" in done.stderr), (125, True), done.stderr)
        self.remote.go_on()
        self.world.try_dsec("umount", self.world.path("mnt"))
        self.root = self.world.mount("env", mode="tree")
        self.check("file3")


class AnotherStore(WorldTest):
    """In place of the one that a lazyfsd went on with."""

    @classmethod
    def prepare(cls):
        cls.tree = cls.world.make_dir("tree")
        with open(os.path.join(cls.tree, "file"), "wb") as file:
            file.write(os.urandom(FILE_BYTES))
        cls.world.compose(f"dir:{cls.tree}", "env")

    def state(self):
        return json.loads(self.world.dsec("fs", "status", "--json"))["store_check"]

    def test_it_is_told_apart(self):
        root = self.world.mount("env", mode="tree")
        self.addCleanup(self.world.try_dsec, "umount", root)
        away = self.world.store + ".away"
        os.rename(self.world.store, away)
        os.kill(self.world.daemon_pid(), signal.SIGKILL)
        self.assertTrue(wait_until(lambda: self.state()["state"] == "away"))
        self.assertEqual(os.listdir(root), ["file"])
        with open(os.path.join(self.tree, "more"), "wb") as file:
            file.write(b"more")
        self.world.compose(f"dir:{self.tree}", "env")
        self.assertTrue(wait_until(lambda: self.state()["state"] == "another", 20), self.state())
        done = self.world.try_dsec("mount", "env", self.world.make_dir("second"))
        self.assertEqual(done.returncode, 125)
        self.assertIn("another store", done.stderr)
        self.assertIn("not the one that is served", self.world.dsec("fs", "status"))
        self.assertIn("store_is_another", self.world.daemon_log())
        os.rename(self.world.store, self.world.store + ".other")
        os.rename(away, self.world.store)
        self.assertTrue(wait_until(lambda: self.state()["state"] == "same", 20), self.state())
        with open(os.path.join(root, "file"), "rb") as shown, open(os.path.join(self.tree, "file"), "rb") as original:
            self.assertEqual(shown.read(), original.read())


if __name__ == "__main__":
    harness.main()
