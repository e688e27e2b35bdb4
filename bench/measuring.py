# SPDX-License-Identifier: Apache-2.0
"""What every benchmark needs: programs, a private store and state, caches to drop, times, and a table of them."""

import dataclasses
import json
import os
import platform
import shutil
import statistics
import subprocess
import time

DROP_CACHES = "/proc/sys/vm/drop_caches"
STOP_TIMEOUT_S = 10


class Missing(Exception):
    """Something of the machine that the benchmark needs is not there."""


class Failed(Exception):
    """A step failed, or two variants did different work."""


@dataclasses.dataclass
class Sample:
    ms: float
    hash: str = ""


@dataclasses.dataclass
class Case:
    """One thing that was measured: variant -> samples; the first variant is what the others are compared with."""
    title: str
    variants: dict
    bytes: int = 0       # of the work, for MB/s
    operations: int = 0  # of the work, for us each
    bar: float = None    # what the ratio of the others should not be above

    def check(self):
        hashes = {sample.hash for samples in self.variants.values() for sample in samples}
        if len(hashes) > 1:
            raise Failed(f"{self.title}: the variants did different work: {sorted(hashes)}")


class Bench:
    """A benchmark's run. As a context it leaves no daemon and no mount behind; files stay in `work_dir`."""

    def __init__(self, name, arguments):
        self.name = name
        self.tiny = arguments.tiny
        self.repeat = arguments.repeat or (2 if self.tiny else 7)
        self.tree_argument = arguments.tree
        self.bin_dir = os.path.abspath(arguments.bin_dir)
        self.work_dir = os.path.abspath(arguments.work_dir)
        self.environment = {**os.environ, "DSEC_STORE": self.path("store"), "DSEC_STATE_DIR": self.path("state"),
                            "DSEC_RUNTIME_DIR": self.path("run")}
        self.own_daemons = [("", self.environment)]
        self.parameters = {"repeat": self.repeat, "tiny": self.tiny}
        self.cases = []
        self.facts = []
        self.notes = []
        self.undo = []

    def __enter__(self):
        self.need_program("dsec")
        os.makedirs(self.work_dir, exist_ok=True)
        self.stop_daemon()
        self.remove("store", "state", "run")
        return self

    def __exit__(self, kind, *_):
        for step in reversed(self.undo):
            step()
        self.stop_daemon()
        if kind is None:
            self.print()

    # Paths and programs.

    def path(self, *parts):
        return os.path.join(self.work_dir, *parts)

    def remove(self, *names):
        for name in names:
            subprocess.run(["rm", "-rf", "--one-file-system", self.path(name)], check=True)

    def need_root(self):
        if os.geteuid() != 0:
            raise Missing("needs root")

    def need_program(self, name, package=None):
        """The path of a program of ours, or of one from a package."""
        if package is None:
            path = os.path.join(self.bin_dir, name)
            if not os.access(path, os.X_OK):
                raise Missing(f"{name} is not built in {self.bin_dir}")
            return path
        path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if path is None:
            raise Missing(f"{name} is missing: apt-get install {package}")
        return path

    # Running things.

    def call(self, *command, environment=None):
        """Runs a command; its standard output."""
        ran = subprocess.run(command, env=environment or self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                             check=False)
        if ran.returncode != 0:
            raise Failed(f"{' '.join(command)}: exit {ran.returncode}: {ran.stderr.strip()[-2000:]}")
        return ran.stdout

    def dsec(self, *arguments, environment=None):
        return self.call(self.need_program("dsec"), *arguments, environment=environment)

    def daemon_with(self, name, settings):
        """The environment in which dsec uses a daemon of its own, with its own copies of metadata and these settings."""
        with open(self.path(f"lazyfsd-{name}.toml"), "w", encoding="utf-8") as file:
            file.write(settings)
        environment = {**self.environment, "DSEC_STATE_DIR": self.path("state-" + name),
                       "DSEC_RUNTIME_DIR": self.path("run-" + name), "DSEC_LAZYFSD_CONF": self.path(f"lazyfsd-{name}.toml")}
        self.own_daemons.append(("-" + name, environment))
        self.stop_daemon()  # of a run that was interrupted
        self.remove("run-" + name, "state-" + name)
        return environment

    def time(self, *command):
        start = time.perf_counter_ns()
        self.call(*command)
        return Sample((time.perf_counter_ns() - start) / 1e6)

    def probe(self, *arguments):
        """What dsec_bench_probe printed."""
        return json.loads(self.call(self.need_program("dsec_bench_probe"), *arguments))

    def stop_daemon(self):
        """Ends the daemons of our store and waits until their mounts are gone."""
        for suffix, environment in self.own_daemons:
            if os.path.exists(self.path("run" + suffix)):
                subprocess.run([os.path.join(self.bin_dir, "dsec"), "fs", "stop"], env=environment, check=False,
                               stdin=subprocess.DEVNULL, capture_output=True)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while self.is_mounted() and time.monotonic() < deadline:
            time.sleep(0.05)

    def is_mounted(self):
        with open("/proc/self/mounts", encoding="utf-8") as file:
            points = [line.split()[1] for line in file]
        return any(point.startswith(self.path("run" + suffix) + "/") for suffix, _ in self.own_daemons for point in points)

    def drop_caches(self):
        """False where that is not permitted."""
        os.sync()
        try:
            with open(DROP_CACHES, "w", encoding="ascii") as file:
                file.write("3")
        except OSError:
            return False
        return True

    # Results.

    def add(self, case):
        case.check()
        self.cases.append(case)

    def fact(self, title, value, unit, bar=None):
        """One number that has no peer to be compared with."""
        self.facts.append((title, value, unit, bar))

    def note(self, text):
        """What a reader of the figures has to know, or what is missing among them."""
        self.notes.append(text)

    def print(self):
        print(f"\nbench {self.name}: " + ", ".join(f"{key} {value}" for key, value in self.parameters.items()))
        print(f"machine: {machine()}")
        for text in self.notes:
            print(text)
        print()
        for title, value, unit, bar in self.facts:
            held = "" if bar is None else f"  bar {bar:g} {unit}: {'held' if value <= bar else 'MISSED'}"
            print(f"{title}: {value:.2f} {unit}{held}")
        if not self.cases:
            return
        width = max(len(title) for title in [case.title for case in self.cases] + ["case"])
        wide = max(24, *(len(variant) for case in self.cases for variant in case.variants))
        print(f"{'case':{width}}  {'variant':{wide}} {'min ms':>10} {'median':>10} {'max':>10} {'MB/s':>8} {'us/op':>9} "
              f"{'ratio':>7}  hash")
        for case in self.cases:
            reference = None
            for variant, samples in case.variants.items():
                times = [sample.ms for sample in samples]
                median = statistics.median(times)
                reference = reference or median
                rate = f"{case.bytes / median / 1e3:8.0f}" if case.bytes else " " * 8
                each = f"{median * 1e3 / case.operations:9.2f}" if case.operations else " " * 9
                print(f"{case.title:{width}}  {variant:{wide}} {min(times):10.2f} {median:10.2f} {max(times):10.2f} {rate} "
                      f"{each} {median / reference:6.2f}x  {samples[0].hash}"
                      f"{verdict(case, variant, median / reference)}")
        print("ratio: median time against the first variant of the case; below 1 is faster")


def verdict(case, variant, ratio):
    if case.bar is None or variant == next(iter(case.variants)):
        return ""
    return f"  bar {case.bar:.2f}: {'held' if ratio <= case.bar else 'MISSED'}"


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    with open("/proc/meminfo", encoding="ascii") as file:
        memory_gib = int(file.readline().split()[1]) / (1 << 20)
    load = os.getloadavg()[0]
    return (f"{len(os.sched_getaffinity(0))} x {models[0] if models else platform.machine()}, {memory_gib:.0f} GiB, "
            f"Linux {platform.release()}, load {load:.1f}")
