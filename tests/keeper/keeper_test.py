#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lazyfsd may be killed or replaced at any time: readers wait and go on. DSEC_LONG_TESTS=1 kills it once a second for
ten minutes under fifty processes instead of for a few seconds under a few."""
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import harness  # noqa: E402
import load  # noqa: E402
from harness import WorldTest, drop_caches, wait_until  # noqa: E402

LONG = os.environ.get("DSEC_LONG_TESTS") == "1"
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = ("dsec", "lazyfsd", "lazyfs-keeper", "dsec-monitor", "dsec-init")


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def kill(pid, number=signal.SIGKILL):
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


class KeeperTest(WorldTest):
    """A world with a small image, mounted from lazyfsd (tree) and as the kernel's own file system (objects)."""

    @classmethod
    def prepare(cls):
        cls.world.compose(f"oci:{harness.small_image()}:v3", "small")

    def setUp(self):
        self.root = self.mount("tree")

    def tearDown(self):
        for mode in ("tree", "objects"):
            self.world.try_dsec("umount", self.world.path("mnt-" + mode))
        self.world.dsec("fs", "stop", "--force")
        self.assert_nothing_left()

    def mount(self, mode):
        target = self.world.make_dir("mnt-" + mode)
        self.world.dsec("mount", "--rootfs-mode", mode, "small", target)
        return target

    def assert_nothing_left(self):
        self.assertTrue(wait_until(lambda: not harness.processes_of(self.world.tmp), 10),
                        harness.processes_of(self.world.tmp))
        self.assertEqual(harness.mounts_below(self.world.tmp), [])
        left = [name for _, _, files in os.walk(self.world.path("run", "lazyfs")) for name in files]
        self.assertEqual(sorted(set(left) - {"lazyfsd.log", "lazyfsd.lock", "start.lock", "slots"}), [])

    def status(self):
        return json.loads(self.world.dsec("fs", "status", "--json"))

    def daemon(self):
        return self.status()["pid"]

    def keeper(self):
        return self.status()["keeper"]["pid"]

    def serving_pid(self):
        """Without asking it: the child of the keeper."""
        keeper = self.keeper_pid
        try:
            with open(f"/proc/{keeper}/task/{keeper}/children", encoding="ascii") as file:
                children = file.read().split()
            return int(children[0]) if children else None
        except OSError:
            return None

    def start_readers(self, paths):
        command = [sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import load;"
                   "print(load.file_digest(sys.argv[2], True))", HERE]
        return [subprocess.Popen([*command, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                for path in paths]

    def finish(self, readers, seconds=60):
        """[(exit status, output, errors)]; a reader that hangs fails the test."""
        done = []
        for reader in readers:
            try:
                out, err = reader.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                reader.kill()
                self.fail("a reader hangs")
            done.append((reader.returncode, out.strip(), err))
        return done

    def write_expected(self, root, name):
        path = self.world.path(name)
        with open(path, "w", encoding="ascii") as file:
            json.dump(load.expected_of(root), file)
        return path


class Killed(KeeperTest):
    def test_reads_that_wait_when_it_is_killed_complete_with_the_right_data(self):
        for root in (self.root, self.mount("objects")):
            paths = [path for path in load.paths_below(root) if os.path.isfile(path) and not os.path.islink(path)][:12]
            expected = [load.file_digest(path, False) for path in paths]
            pid = self.daemon()
            os.kill(pid, signal.SIGSTOP)
            readers = self.start_readers(paths)
            time.sleep(1)
            self.assertTrue(any(reader.poll() is None for reader in readers), "nobody waits: nothing was tested")
            kill(pid)
            self.assertEqual([(0, digest, "") for digest in expected], self.finish(readers))

    def test_names_and_attributes_are_the_same_afterwards(self):
        before = load.expected_of(self.root)
        for _ in range(2):
            kill(self.daemon())
            drop_caches()
            self.assertEqual(before, load.expected_of(self.root))

    def test_directories_that_are_open_are_known_to_the_next_one(self):
        directories = [path for path in [self.root, *load.paths_below(self.root)]
                       if os.path.isdir(path) and not os.path.islink(path)]
        opened = [os.open(path, os.O_RDONLY) for path in directories]
        try:
            before = [sorted(os.listdir(fd)) for fd in opened]
            kill(self.daemon())
            drop_caches()
            self.assertEqual(before, [sorted(os.listdir(os.open(f"/proc/self/fd/{fd}", os.O_RDONLY))) for fd in opened])
            for fd, names in zip(opened, before):
                for name in names:
                    os.stat(name, dir_fd=fd, follow_symlinks=False)
        finally:
            os.closerange(min(opened), max(opened) + len(opened) + 1)

    def test_what_was_attached_is_attached_and_for_whom(self):
        before = self.status()["attached"]
        kill(self.daemon())
        after = self.status()
        self.assertEqual(before, after["attached"])
        self.assertEqual(after["keeper"]["restarts"], 1)
        self.assertIn("signal 9", after["keeper"]["last_reason"])
        self.world.umount("mnt-tree")
        self.assertTrue(all(not env["owners"] for env in self.status()["attached"]))
        kill(self.daemon())
        self.assertTrue(all(not env["owners"] for env in self.status()["attached"]))

    def test_many_kills_under_load_fail_no_reader(self):
        self.keeper_pid = self.keeper()
        roots = {"tree": self.root, "objects": self.mount("objects")}
        expected = {mode: self.write_expected(root, f"expected-{mode}.json") for mode, root in roots.items()}
        count, seconds, period = (50, 600, 1.0) if LONG else (6, 8, 0.2)
        seed = random.randrange(1 << 30)
        print(f"seed {seed}, {count} processes, {seconds} s, one kill in {period} s", flush=True)
        processes = []
        for i in range(count):
            mode = "objects" if i % 3 == 2 else "tree"
            processes.append(subprocess.Popen(
                [sys.executable, os.path.join(HERE, "load.py"), roots[mode], expected[mode], str(seconds),
                 str(seed + i)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        kills = 0
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(process.poll() is None for process in processes):
            time.sleep(period)
            if pid := self.serving_pid():
                kill(pid)
                kills += 1
            if kills % 5 == 0:
                drop_caches()
        done = self.finish(processes, 120)
        print(f"{kills} kills; {[out for _, out, _ in done][:3]}", flush=True)
        self.assertEqual([], [one for one in done if one[0] != 0])
        self.assertGreater(kills, seconds / period / 4)
        self.assertEqual(self.keeper(), self.keeper_pid)

    def test_it_is_started_again_while_the_store_is_away(self):
        before = load.expected_of(self.root)
        away = self.world.store + ".away"
        os.rename(self.world.store, away)
        try:
            kill(self.daemon())
            drop_caches()
            root = os.fsencode(self.root)
            self.assertEqual({os.path.relpath(path, root).hex() for path in load.paths_below(root)}, set(before))
        finally:
            os.rename(away, self.world.store)
        self.assertEqual(before, load.expected_of(self.root))

    def test_sigterm_to_it_alone_makes_room_for_a_successor(self):
        pid = self.daemon()
        kill(pid, signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not is_alive(pid)))
        self.assertNotEqual(self.daemon(), pid)
        self.assertEqual(self.status()["keeper"]["last_reason"], "upgrade")


class Sandboxes(KeeperTest):
    def run_in_background(self, *command):
        return subprocess.Popen([os.path.join(harness.BIN, "dsec"), "run", "--json", "small", "--", *command],
                                env=self.world.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def owners(self):
        return [owner for env in self.status()["attached"] for owner in env["owners"] if owner.startswith("sandbox:")]

    def test_a_sandbox_does_not_notice(self):
        whole = load.file_digest(os.path.join(self.root, "bin/busybox"), False)
        box = self.run_in_background("/bin/busybox", "sh", "-c", "for i in 1 2 3 4; do /bin/busybox sleep 0.5; "
                                     "/bin/busybox sha256sum /bin/busybox; done")
        self.assertTrue(wait_until(self.owners))
        for _ in range(4):
            time.sleep(0.4)
            kill(self.daemon())
            drop_caches()
        out, err = box.communicate(timeout=60)
        self.assertEqual((box.returncode, out.split()), (0, [whole, "/bin/busybox"] * 4), err)
        self.assertGreaterEqual(json.loads(err.strip().splitlines()[-1])["bytes_fetched"], 0)
        self.assertEqual(self.owners(), [])

    def test_a_lease_ends_with_its_process_also_after_a_restart(self):
        box = self.run_in_background("/bin/busybox", "sleep", "60")
        self.assertTrue(wait_until(self.owners))
        owner = self.owners()
        kill(self.daemon())
        self.assertEqual(self.owners(), owner)
        box.kill()
        box.communicate(timeout=30)
        self.assertTrue(wait_until(lambda: not self.owners()), "a lease outlived its process")
        self.world.try_dsec("rm", "--force", owner[0].removeprefix("sandbox:"))


class Upgrades(KeeperTest):
    """With programs of its own, to be replaced."""

    @classmethod
    def prepare(cls):
        super().prepare()
        bin_dir = cls.world.make_dir("bin")
        for program in PROGRAMS:
            shutil.copy2(os.path.join(harness.BIN, program), bin_dir)
        cls.addClassCleanup(setattr, harness, "BIN", harness.BIN)
        harness.BIN = bin_dir

    def replace_lazyfsd(self, text):
        path = self.world.path("bin", "lazyfsd")
        if not os.path.exists(path + ".good"):
            shutil.copy2(path, path + ".good")
            self.addCleanup(os.rename, path + ".good", path)
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path + ".new", 0o755)
        os.rename(path + ".new", path)

    def test_readers_wait_and_go_on(self):
        before = self.status()
        expected = self.write_expected(self.root, "expected.json")
        process = subprocess.Popen([sys.executable, os.path.join(HERE, "load.py"), self.root, expected, "3", "1"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3):
            time.sleep(0.5)
            self.assertIn("took over", self.world.dsec("fs", "upgrade"))
        self.assertEqual([(0, "")], [(code, err) for code, _, err in self.finish([process])])
        after = self.status()
        self.assertNotEqual(before["pid"], after["pid"])
        self.assertEqual(before["keeper"]["pid"], after["keeper"]["pid"])
        self.assertEqual(before["attached"], after["attached"])

    def test_a_program_that_does_not_start_is_not_used(self):
        pid = self.daemon()
        for script, reason in (("exit 3", "nothing was interrupted"),  # it cannot even read its settings
                               ('[ "$1" = --check-settings ] || exit 3', "exit status 3")):
            self.replace_lazyfsd(f"#!/bin/sh\n{script}\n")
            done = self.world.try_dsec("fs", "upgrade")
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(reason, done.stderr)
            self.assertTrue(os.listdir(self.root))
            self.assertEqual(self.daemon() == pid, "interrupted" in reason)
        kill(self.daemon())  # the one that served is started again, not the bad one
        drop_caches()
        self.assertTrue(os.listdir(self.root))
        self.assertIn("signal 9", self.status()["keeper"]["last_reason"])


class HungTest(KeeperTest):
    """One test each: nothing may be cached, so its world is its own."""

    def hang(self):
        """Readers of one file whose request hangs in the store; the store itself is well again on return."""
        packs = self.world.packs()
        for pack in packs:
            os.rename(pack, pack + ".away")
            os.mkfifo(pack)  # whoever opens it waits for a writer
        self.addCleanup(self.put_back, packs)
        readers = self.start_readers([os.path.join(self.root, "bin/busybox")])
        time.sleep(1)
        self.assertIsNone(readers[0].poll(), "nothing hangs: nothing was tested")
        return packs, readers

    def put_back(self, packs):
        for pack in packs:
            if os.path.exists(pack + ".away"):
                os.rename(pack + ".away", pack)


class Hung(HungTest):
    def test_an_upgrade_frees_a_reader_whose_thread_hangs(self):
        packs, readers = self.hang()
        self.put_back(packs)
        self.assertIn("took over", self.world.dsec("fs", "upgrade"))
        self.assertIn("drained=no", self.world.daemon_log())
        self.assertEqual(0, self.finish(readers, 30)[0][0])


class Crashing(HungTest):
    def test_a_request_that_was_there_at_three_crashes_is_not_served_again(self):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        self.tearDown()
        self.setUp()  # with that limit
        _, readers = self.hang()
        for crashes in range(1, 4):
            kill(self.daemon(), signal.SIGSEGV)
            self.assertEqual(self.status()["keeper"]["restarts"], crashes)
            time.sleep(0.3)
            if crashes < 3:
                self.assertIsNone(readers[0].poll())
        code, _, errors = self.finish(readers, 30)[0]
        self.assertEqual((code, "Input/output error" in errors), (1, True), errors)
        self.assertIn("request_dropped", self.world.daemon_log())
        self.assertTrue(os.listdir(self.root))  # who came later is served


class GivenUp(KeeperTest):
    @classmethod
    def prepare(cls):
        super().prepare()
        cls.world.env["DSEC_KEEPER_PATIENCE"] = "6s"

    def test_readers_get_an_error_when_it_cannot_be_started_again(self):
        keeper, pid = self.keeper(), self.daemon()
        path = os.path.join(self.root, "bin/busybox")
        slots = os.path.join(os.path.dirname(self.status()["attached"][0]["path"]), "../slots")
        os.kill(pid, signal.SIGSTOP)
        readers = self.start_readers([path])
        with open(slots, "a", encoding="ascii") as file:
            file.write("no slot\n")  # a successor cannot know the numbers of nodes and must not guess
        self.addCleanup(os.remove, slots)
        kill(pid)
        self.assertNotEqual(0, self.finish(readers, 60)[0][0])
        self.assertTrue(wait_until(lambda: not is_alive(keeper)))
        self.assertIn("cannot be started any more", self.world.daemon_log())
        with self.assertRaises(OSError):
            os.listdir(self.root)


class KeeperKilled(KeeperTest):
    def test_lazyfsd_serves_on_and_gets_another_keeper(self):
        keeper, pid = self.keeper(), self.daemon()
        kill(keeper)
        drop_caches()
        self.assertTrue(os.listdir(self.root))
        self.assertTrue(wait_until(lambda: self.keeper() not in (None, keeper), 20))
        self.assertEqual(self.daemon(), pid)
        kill(pid)
        drop_caches()
        self.assertTrue(load.file_digest(os.path.join(self.root, "bin/busybox"), True))
        self.assertNotEqual(self.daemon(), pid)

    def test_it_can_be_replaced_after_its_keeper_was(self):
        def upgrade(_):
            self.assertIn("took over", self.world.dsec("fs", "upgrade"))

        def terminate(pid):
            kill(pid, signal.SIGTERM)
            self.assertTrue(wait_until(lambda: not is_alive(pid)))

        for replace in (upgrade, terminate, upgrade, kill):
            keeper, pid = self.keeper(), self.daemon()
            kill(keeper)
            self.assertTrue(wait_until(lambda: self.keeper() not in (None, keeper), 20))
            keeper = self.keeper()
            replace(pid)
            drop_caches()
            self.assertTrue(load.file_digest(os.path.join(self.root, "bin/busybox"), True))
            self.assertNotEqual(self.daemon(), pid)
            self.assertEqual(self.keeper(), keeper)

    def test_when_both_are_killed_the_next_start_clears_up(self):
        keeper, pid = self.keeper(), self.daemon()
        kill(keeper)
        kill(pid)
        self.assertTrue(wait_until(lambda: not is_alive(pid) and not is_alive(keeper)))
        with self.assertRaises(OSError):
            os.listdir(self.root)
        self.world.try_dsec("umount", self.root)
        self.assertTrue(os.listdir(self.mount("tree")))

    def test_sigterm_to_the_keeper_ends_everything(self):
        keeper, pid = self.keeper(), self.daemon()
        self.world.umount("mnt-tree")
        kill(keeper, signal.SIGTERM)
        self.assertTrue(wait_until(lambda: not is_alive(keeper) and not is_alive(pid)))
        self.assert_nothing_left()

    def test_a_hung_lazyfsd_is_replaced(self):
        self.tearDown()
        self.world.env["DSEC_KEEPER_PATIENCE"] = "7s"  # longer than the pause between two signs of life
        self.addCleanup(self.world.env.pop, "DSEC_KEEPER_PATIENCE")
        self.mount("tree")
        pid = self.daemon()
        os.kill(pid, signal.SIGSTOP)
        readers = self.start_readers([os.path.join(self.root, "bin/busybox")])
        self.assertEqual(0, self.finish(readers, 60)[0][0])
        self.assertIn("no sign of life", self.status()["keeper"]["last_reason"])


if __name__ == "__main__":
    harness.main()
