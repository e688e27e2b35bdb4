#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Everything at once for a long time, then everything at rest: what is left must be what was there after the warm-up.

DSEC_SOAK_SECONDS=7200 is the long form, DSEC_SOAK_SEED repeats a run's choices, and DSEC_SOAK_PAUSE=1.5 lets each worker
rest for about so many seconds after each operation. The process may be stopped and continued meanwhile.

lazyfsd has one malloc arena here, so that what one thread gave back serves the others and a small leak is not lost in
what arenas keep; MALLOC_ARENA_MAX=0 has as many as elsewhere.
"""
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import envs  # noqa: E402
import harness  # noqa: E402
from census import MIB, Census, differences, growth_bound, private_bytes  # noqa: E402
from harness import WorldTest, need  # noqa: E402
from report import Report  # noqa: E402
from work import KINDS, MODES, Clock, Worker, Wrong  # noqa: E402

SECONDS = float(os.environ.get("DSEC_SOAK_SECONDS", "20"))
PAUSE = float(os.environ.get("DSEC_SOAK_PAUSE", "0"))
SEED = int(os.environ.get("DSEC_SOAK_SEED") or random.randrange(1 << 30))
WORKERS = 3
IS_LONG = SECONDS >= 300
PERIODS = 20 if IS_LONG else 4
WARM_UP = 0.1            # of the time
FAILURES = 10            # after so many it ends
CACHE_QUOTA = 8 * MIB
CACHE_SLACK = 1 * MIB    # what the quota does not count
RECORDS_BOUND = 5 * MIB  # of what daemons write down for their successors: rewritten beyond 4 MiB
GROWTH = {"lazyfsd": (4 if IS_LONG else 8) * MIB, "lazyfs-keeper": MIB}  # of private memory, or a fifth if that is more
IS_SANITIZED = bool({"ASAN_OPTIONS", "TSAN_OPTIONS"} & os.environ.keys())  # freed memory is kept: there is no bound
# Merged images are made by who attaches first: made in the background, some would come after the baseline.
SETTINGS = {"memory_cache": "4M", "node_cache": "on", "cache_quota": str(CACHE_QUOTA), "cache_reserve": "0",
            "merged_roots": "always"}


class SoakTest(WorldTest):
    """A world with all environments, each seen in both modes, and a keeper."""

    @classmethod
    def prepare(cls):
        need("crun", "umoci")
        print(f"seed {SEED} (DSEC_SOAK_SEED), {SECONDS:g} s", flush=True)
        cls.world.env["TMPDIR"] = cls.world.make_dir("tmp")
        cls.world.env.setdefault("MALLOC_ARENA_MAX", "1")
        settings = {**SETTINGS, "metrics_listen": "unix:" + cls.world.path("metrics")}
        with open(cls.world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.writelines(f'{key} = "{value}"\n' for key, value in settings.items())
        cls.clock = Clock()
        cls.addClassCleanup(cls.clock.close)
        cls.envs = envs.all_envs()
        cls.caller = Worker(cls.world, cls.envs, cls.clock, "main", random.Random(SEED))
        cls.compose_all()
        cls.caller.dsec("run", "plain", "true")
        cls.keeper = cls.status()["keeper"]["pid"]
        cls.census = Census(cls.world, cls.keeper)
        cls.addClassCleanup(cls.census.close)
        cls.addClassCleanup(cls.end_sandboxes)
        for env in cls.envs:
            cls.learn(env)

    @classmethod
    def compose_all(cls):
        sources = envs.make_sources(cls.world, SEED)
        for env in cls.envs:
            path = cls.caller.manifests[env.name] = cls.world.path(f"{env.name}.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(env.manifest(sources))
            env.digest = json.loads(cls.caller.dsec("compose", "-f", path, "--json"))["env"]

    @classmethod
    def learn(cls, env):
        found = []
        for mode in MODES:
            directory = cls.world.mount(env.name, "learn", mode)
            try:
                found.append(envs.contents_of(directory))
            finally:
                cls.world.umount("learn")
        if found[0] != found[1]:
            raise AssertionError(f"{env.name}: tree and objects differ")
        env.contents = found[0]
        envs.expect_sources(env, cls.world)
        if env.can_run:
            cls.caller.dsec("run", "--record", env.name, "sh", "-c", "cat /data/*/f0* >/dev/null; true")

    @classmethod
    def end_sandboxes(cls):
        """Also those of an interrupted test, with their cgroups."""
        cls.caller.stopping.clear()
        for box in cls.sandboxes():
            cls.world.try_dsec("rm", "--force", box)
        cls.sweep()

    @classmethod
    def sweep(cls):
        """What dead sandboxes left is removed by the next run, but not in each second."""
        os.utime(cls.world.path("state", "sandboxes", ".swept"), (0, 0))
        cls.world.try_dsec("run", "plain", "true")

    @classmethod
    def status(cls):
        return json.loads(cls.caller.dsec("fs", "status", "--json"))

    @classmethod
    def sandboxes(cls):
        return sorted(box["id"] for box in json.loads(cls.caller.dsec("ps", "--json"))["sandboxes"])

    @classmethod
    def roll_call(cls):
        """With empty caches, every environment is shown in both modes and every file of it read, so that any lazyfsd at rest
        has the same: layers, roots, packs."""
        cls.caller.dsec("fs", "evict", "--all")
        for env in cls.envs:
            for mode in MODES:
                directory = cls.world.path("roll")
                os.makedirs(directory, exist_ok=True)
                cls.caller.dsec("mount", "--rootfs-mode", mode, env.name, directory)
                try:
                    wrong = envs.contents_of(directory) != env.contents
                finally:
                    cls.caller.dsec("umount", directory)
                if wrong:
                    raise Wrong(f"roll call: {mode} of {env.name}: WRONG BYTES")

    @classmethod
    def rest(cls, baseline=None):
        """The census once nothing moves: quiet without a baseline, else like it, or after half a minute as it is."""
        cls.roll_call()
        for _ in range(30):
            cls.sweep()
            time.sleep(0.3)
            seen = cls.census.take(cls.status(), cls.sandboxes())
            if not (differences(baseline, seen) if baseline else restless(seen)):
                break
            time.sleep(0.7)
        return seen


class Soak(SoakTest):
    def test_what_is_left_at_rest_is_what_was_there(self):
        self.report = Report(SEED, self.clock)
        self.failures, self.baseline = [], None
        self.workers = [Worker(self.world, self.envs, self.clock, i, random.Random(SEED + 1 + i)) for i in range(WORKERS)]
        for worker in self.workers:
            worker.manifests = self.caller.manifests
        self.chance = random.Random(SEED + 1 + WORKERS)
        try:
            self.soak()
        except Wrong as wrong:
            self.note(str(wrong))
        finally:
            for worker in self.workers:
                worker.stopping.set()
            self.report.print([*self.workers, self.caller])
            self.end_sandboxes()
        if self.failures:
            self.fail(f"seed {SEED}:\n" + "\n".join(self.failures))

    def soak(self):
        self.warm_up()
        self.baseline = self.rest()
        for line in restless(self.baseline):
            self.note(f"after the warm-up: {line}")
        self.report.add("warm-up", self.baseline, self.workers)
        each = SECONDS * (1 - WARM_UP) / PERIODS
        for period in range(PERIODS):
            if self.is_over():
                return
            # In the second half one lazyfsd lives through all of it, so that what it leaks adds up.
            replaces = period < PERIODS // 2 and period % 2 == 1
            self.work(each, self.replace if replaces else self.watch)
            seen = self.rest(self.baseline)
            self.report.add("replaced" if replaces else "steady", seen, self.workers)
            self.check(seen)

    def warm_up(self):
        """Each kind twice, then as later; lazyfsd is replaced at its beginning only."""
        for kind in [*KINDS] * 2:
            self.note(self.workers[0].do(kind))
        for worker in self.workers:
            worker.unmount_all()
        self.work(SECONDS * WARM_UP / 2, self.replace)
        self.work(SECONDS * WARM_UP / 2, self.watch)

    def work(self, seconds, beside):
        """All workers for a time, while this thread calls `beside`; in the end nothing is mounted."""
        end = self.clock.seconds + seconds
        threads = [threading.Thread(target=self.run_worker, args=(worker, end)) for worker in self.workers]
        for thread in threads:
            thread.start()
        try:
            while any(thread.is_alive() for thread in threads):
                if self.clock.seconds < end and not self.is_over():
                    beside()
                time.sleep(0.1)
        finally:
            for worker in self.workers if self.clock.seconds < end else []:
                worker.stopping.set()
            for thread in threads:
                thread.join()

    def run_worker(self, worker, end):
        kinds, weights = list(KINDS), list(KINDS.values())
        try:
            while self.clock.seconds < end and not self.is_over() and not worker.stopping.is_set():
                self.note(worker.do(worker.chance.choices(kinds, weights)[0]))
                worker.stopping.wait(worker.chance.uniform(0, 2 * PAUSE))
            worker.unmount_all()
        except Exception as error:  # a thread's end must be seen
            self.note(f"worker {worker.number}: {error!r}")

    def is_over(self):
        return len(self.failures) >= FAILURES

    def note(self, failure):
        if failure and failure not in self.failures:
            self.failures.append(failure)
            print(f"seed {SEED}: {failure}", flush=True)

    def watch(self):
        self.report.peak(private_bytes(self.census.serving()))
        time.sleep(0.5)

    def replace(self):
        """Kills lazyfsd or upgrades it, and waits until the next one serves."""
        pid = self.census.serving()
        kind = self.chance.choice(("kill", "upgrade"))
        self.note(self.caller.do_replace(kind, pid, self.census))
        self.watch()
        time.sleep(self.chance.uniform(0, 0.5 + 8 * PAUSE))

    def check(self, seen):
        found = differences(self.baseline, seen)
        replaced = self.caller.counts.get("kill", 0) + self.caller.counts.get("upgrade", 0)
        if seen["restarts"] != replaced and self.clock.stopped < 5:
            found.append(f"we replaced lazyfsd {replaced} times, not {seen['restarts']}: {self.status()['keeper']}")
        if seen["keeper"] != self.keeper:
            found.append(f"lazyfs-keeper {self.keeper} was replaced by {seen['keeper']}")
        for name, least in GROWTH.items():
            bound = growth_bound(self.baseline["memory"][name], least)
            if seen["memory"][name] > bound and not IS_SANITIZED:
                found.append(f"{name} has {seen['memory'][name] >> 10} KiB of private memory, bound {bound >> 10} KiB")
        if seen["records"] > RECORDS_BOUND:
            found.append(f"attachments and slots have {seen['records']} bytes, bound {RECORDS_BOUND}")
        if seen["cache"] > CACHE_QUOTA + CACHE_SLACK:
            found.append(f"the node cache has {seen['cache']} bytes, its quota is {CACHE_QUOTA}")
        for line in found:
            self.note(f"at rest after {self.clock.seconds:.0f} s: {line}")


class Noticed(SoakTest):
    """Each kind of leak, made on purpose, is found. One baseline for all of them, so each test takes back what it made."""

    @classmethod
    def prepare(cls):
        super().prepare()
        cls.baseline = cls.rest()

    def tearDown(self):
        harness.wait_until(lambda: not self.found(), 5)
        self.assertEqual([], self.found())

    def found(self):
        return differences(self.baseline, self.census.take(self.status(), self.sandboxes()))

    def assert_found(self, *parts):
        found = self.found()
        for part in parts:
            self.assertTrue(any(part in line for line in found), f"{part} is not in {found}")

    def test_nothing_when_nothing_is_left(self):
        self.assertEqual([], restless(self.baseline))
        self.assertEqual([], differences(self.baseline, self.rest(self.baseline)))

    def test_a_mount(self):
        for mode in MODES:
            target = self.world.mount("ab", "left", mode)
            self.assert_found("mounts: ", "owners: ", "files: ")
            self.world.umount("left")
            os.rmdir(target)

    def test_a_mount_that_lazyfsd_does_not_know(self):
        target = self.world.make_dir("left")
        subprocess.run(["mount", "-t", "tmpfs", "none", target], check=True)
        try:
            self.assert_found("mounts: ")
        finally:
            subprocess.run(["umount", target], check=True)
            os.rmdir(target)

    def test_a_connection(self):
        control = next(os.path.join(directory, "control") for directory, _, names in
                       os.walk(self.world.path("run", "lazyfs")) if "control" in names)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(control)
            harness.wait_until(lambda: False, 0.3)
            self.assert_found("descriptors of lazyfsd: ", "threads of lazyfsd: ")

    def test_a_sandbox(self):
        self.world.dsec("run", "--keep", "--name", "left", "plain", "true")
        self.assert_found("sandboxes: ", "files: ")
        self.world.dsec("rm", "left")
        box = self.caller.start("run", "--name", "left", "plain", "sleep", "1000")
        self.assertTrue(harness.wait_until(lambda: "running" in self.world.dsec("ps")))
        self.assert_found("cgroups: ", "processes: ", "namespaces: ", "mnt", "net")
        self.world.dsec("rm", "--force", "left")
        self.caller.end(box)

    def test_a_file(self):
        for names in (("run", "scratch", "left"), ("state", "cache", "tmp", "left"), ("store", "tmp", "left")):
            with open(self.world.path(*names), "w", encoding="ascii"):
                self.assert_found(f"files: ", names[-1])
            os.remove(self.world.path(*names))


def restless(seen):
    """What there must not be at rest."""
    return [f"{what}: {seen[what]}" for what in ("cgroups", "processes", "namespaces", "owners", "sandboxes") if seen[what]]


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started us ignored: our children must not inherit it
    harness.main()
