#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever ends, however: nothing stays. $DSEC_LEAK_RUNS and $DSEC_LEAK_PARALLEL make it long (200 and 50)."""
import concurrent.futures
import glob
import os
import random
import signal
import subprocess
import threading
import time

import harness
from harness import BIN, WorldTest, mounts_below, need, processes_of, wait_until

RUNS = int(os.environ.get("DSEC_LEAK_RUNS", "8"))
PARALLEL = int(os.environ.get("DSEC_LEAK_PARALLEL", "6"))
KILLS = int(os.environ.get("DSEC_LEAK_KILLS", str(max(6, RUNS // 2))))


class IdWatcher:
    """Collects the ids of all sandboxes that show up while it runs, also of those that are killed."""

    def __init__(self, world):
        self.directory = world.path("state", "sandboxes")
        self.ids = set()
        self.stop = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.stop.wait(0.003):
            try:
                self.ids.update(name for name in os.listdir(self.directory) if not name.startswith("."))
            except FileNotFoundError:
                pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()

    def cgroups(self):
        return [path for path in glob.glob("/sys/fs/cgroup/**/dsec/*", recursive=True) if os.path.basename(path) in self.ids]


class Leaks(WorldTest):
    SEED = int(os.environ.get("DSEC_SEED", "7"))

    @classmethod
    def prepare(cls):
        need("crun", "umoci")
        cls.world.compose(f"oci:{harness.small_image()}:v1", "small")
        cls.world.dsec("run", "small", "true")  # starts lazyfsd, which stays
        cls.world.mount("small")
        cls.world.umount()
        os.rmdir(cls.world.path("mnt"))
        wait_until(cls.quiet)
        cls.before = cls.state()

    @classmethod
    def processes(cls):
        """Ours but lazyfsd and its keeper, which are meant to stay."""
        found = []
        for pid in processes_of(cls.world.tmp):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    name = file.read().strip()
            except OSError:
                continue
            if name not in ("lazyfs-keeper", "lazyfsd", ""):
                found.append(name)
        return sorted(found)

    @classmethod
    def quiet(cls):
        return not cls.processes()

    @classmethod
    def state(cls):
        """Everything that a sandbox may leave: mounts, processes, files of the state directory but caches."""
        files = []
        for part in ("state", "run"):
            for directory, folders, names in os.walk(cls.world.path(part)):
                folders[:] = [folder for folder in folders if folder not in ("mnt", "mnt-xattr", "cache")]
                files += [os.path.relpath(os.path.join(directory, name), cls.world.tmp) for name in folders + names]
        return {"mounts": sorted(mounts_below(cls.world.tmp)), "processes": cls.processes(), "files": sorted(files)}

    def check_clean(self, watcher):
        """With one more run, which sweeps, and a sweep of its own."""
        self.world.dsec("ps")
        wait_until(self.quiet)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and (self.state() != self.before or watcher.cgroups()):
            self.world.dsec("run", "small", "true")
            time.sleep(1)
        self.assertEqual(self.state(), self.before)
        self.assertEqual(watcher.cgroups(), [])
        self.assertEqual(self.world.dsec("ps").strip().count("\n"), 0)
        status = self.world.dsec("fs", "status", "--json")
        self.assertIn('"owners":[]', status.replace(" ", ""))

    def test_runs_one_after_the_other(self):
        with IdWatcher(self.world) as watcher:
            for i in range(RUNS):
                self.assertEqual(self.world.try_dsec("run", "small", "sh", "-c", f"echo x > /f; exit {i % 3}").returncode, i % 3)
            self.assertGreater(len(watcher.ids), 0)
            self.check_clean(watcher)

    def test_runs_in_parallel(self):
        with IdWatcher(self.world) as watcher, concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
            done = list(pool.map(lambda i: self.world.try_dsec("run", "small", "sh", "-c", f"echo {i}"), range(PARALLEL * 2)))
            for i, run in enumerate(done):
                self.assertEqual((run.returncode, run.stdout), (0, f"{i}\n"), run.stderr)
            self.check_clean(watcher)

    def victims(self, kind):
        """Pids of the client, the monitor or crun of runs of this world."""
        name = {"client": "dsec", "monitor": "dsec-monitor", "crun": "crun"}[kind]
        found = []
        for pid in processes_of(self.world.tmp):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as file:
                    if file.read().strip() == name:
                        found.append(pid)
            except OSError:
                pass
        return found

    def kill_during_run(self, kind, delay):
        with subprocess.Popen([os.path.join(BIN, "dsec"), "run", "small", "sleep", "2"], env=self.world.env,
                              stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            time.sleep(delay)
            killed = 0
            for pid in self.victims(kind):
                try:
                    os.kill(pid, signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
            process.communicate(timeout=60)
            return killed

    def test_kills_at_random_times(self):
        chance = random.Random(self.SEED)
        killed = 0
        with IdWatcher(self.world) as watcher:
            for i in range(KILLS):
                kind = ("client", "monitor", "crun")[i % 3]
                delay = chance.random() * 0.4
                with self.subTest(kind=kind, delay=delay, seed=self.SEED):
                    killed += self.kill_during_run(kind, delay)
            self.assertGreaterEqual(killed, KILLS // 3)  # crun lives only for a moment
            self.check_clean(watcher)

    def test_what_sandboxes_leave_running_dies_with_them(self):
        with IdWatcher(self.world) as watcher:
            self.world.dsec("run", "small", "sh", "-c", "setsid sleep 1000 & (sleep 1000 &) ; exit 0")
            self.check_clean(watcher)

    def test_mounting_and_unmounting(self):
        for _ in range(RUNS):
            self.world.mount("small")
            self.world.umount()
        os.rmdir(self.world.path("mnt"))
        with IdWatcher(self.world) as watcher:
            self.check_clean(watcher)

    def test_zz_a_killed_daemon_is_replaced(self):
        pid = self.world.daemon_pid()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}"))
        self.assertEqual(self.world.dsec("run", "small", "echo", "again"), "again\n")
        self.assertNotEqual(self.world.daemon_pid(), pid)
        with IdWatcher(self.world) as watcher:
            self.check_clean(watcher)

    def test_zzz_a_stopped_daemon_leaves_no_mount(self):
        self.world.stop_daemon()
        self.assertEqual(mounts_below(self.world.tmp), [])
        self.assertEqual(processes_of(self.world.tmp), [])
        self.world.dsec("run", "small", "true")
        self.world.stop_daemon()
        self.assertEqual(mounts_below(self.world.tmp), [])


if __name__ == "__main__":
    harness.main()
