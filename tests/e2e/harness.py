# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: a world of its own for each test class, and the programs as a user runs them.

Every test drives the real `dsec` of $DSEC_BIN_DIR with a store, a state and a runtime directory in a temporary
directory. World.close() ends everything that belongs to that directory (daemons, sandboxes, mounts) and removes it,
whatever the test did. $DSEC_FIXTURES is where images that take long to make are kept between runs.
"""
import atexit
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SUPPORT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "support")
BIN = os.environ.get("DSEC_BIN_DIR", "")
FIXTURES = os.environ.get("DSEC_FIXTURES", "")
ROOTFS_MODE = os.environ.get("DSEC_E2E_ROOTFS_MODE", "")  # of runs and mounts that do not say theirs
SKIPPED = 77


def need_root():
    if os.geteuid() != 0:
        raise unittest.SkipTest("needs root")
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        raise unittest.SkipTest("needs /dev/fuse")


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise unittest.SkipTest(f"needs {program}")


def support(name, *args, **options):
    """Runs a program of tests/support and returns what it printed."""
    path = os.path.join(SUPPORT, name)
    interpreter = [sys.executable] if name.endswith(".py") else ["bash"]
    return subprocess.run([*interpreter, path, *args], check=True, capture_output=True, text=True, **options).stdout


def fixture(name, script):
    """The directory that `script` makes, made once and kept. Skips when something that it needs is not here."""
    need_root()
    out = os.path.join(FIXTURES or tempfile.gettempdir(), name)
    done = subprocess.run(["bash", os.path.join(SUPPORT, script), out], capture_output=True, text=True)
    if done.returncode == 3 or (done.returncode != 0 and "apt" in done.stderr):
        raise unittest.SkipTest(f"{script}: {done.stderr.strip()[-300:]}")
    if done.returncode != 0:
        raise RuntimeError(f"{script}: {done.stderr}")
    return out


def small_image():
    return os.path.join(fixture("small-image", "make_small_image.sh"), "small")


def big_image():
    """The directory with the layout "debian" and docker-archive.tar; takes about a minute the first time."""
    return fixture("big-image", "make_image.sh")


def treediff(left, right, *ignored):
    """The differences of two trees as lines; empty when there are none."""
    command = [sys.executable, os.path.join(SUPPORT, "treediff.py"), left, right]
    for key in ignored:
        command += ["--ignore", key]
    done = subprocess.run(command, capture_output=True)
    output = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
    if done.returncode == 2:
        raise RuntimeError(output)
    return output.splitlines()


def is_merged_directory(root, line):
    """Whether a difference is one that object mode has: overlayfs counts no links of a directory of several layers."""
    found = re.fullmatch(r"(.*): nlink: (?:\d+ 1|1 \d+)", line)
    return found is not None and os.path.isdir(os.path.join(root, found.group(1)))


def read_all(root):
    """path below the root -> bytes of each file."""
    found = {}
    for directory, _, names in os.walk(root):
        for name in names:
            path = os.path.join(directory, name)
            with open(path, "rb") as file:
                found[os.path.relpath(path, root)] = file.read()
    return found


def mounts_below(directory):
    found = []
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        for line in mounts:
            point = line.split(" ")[1].replace("\\040", " ")
            if point == directory or point.startswith(directory + "/"):
                found.append(point)
    return found


def processes_of(directory):
    """Processes whose command line or environment names a directory, but this one."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            text = b""
            for name in ("cmdline", "environ"):
                with open(f"/proc/{pid}/{name}", "rb") as file:
                    text += file.read()
        except OSError:
            continue
        if os.fsencode(directory) in text:
            found.append(int(pid))
    return found


def drop_caches():
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3\n")


def wait_until(condition, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


class World:
    """A store, state and runtime directory, and `dsec` on them."""

    def __init__(self, name="dsec-e2e"):
        self.tmp = tempfile.mkdtemp(prefix=f"{name}.", dir="/tmp")
        atexit.register(self.close)  # also when the tests are interrupted
        self.store = self.path("store")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("DSEC_")}
        self.env.update(DSEC_STORE=self.store, DSEC_RUNTIME_DIR=self.path("run"), DSEC_STATE_DIR=self.path("state"),
                        DSEC_LAZYFSD_CONF=self.path("lazyfsd.toml"))

    def path(self, *names):
        return os.path.join(self.tmp, *names)

    def make_dir(self, *names):
        os.makedirs(self.path(*names), exist_ok=True)
        return self.path(*names)

    def try_dsec(self, *args, timeout=120, **options):
        """Runs dsec; returns the finished process with text output."""
        if ROOTFS_MODE and args[0] in ("run", "mount") and "--rootfs-mode" not in args:
            args = (args[0], "--rootfs-mode", ROOTFS_MODE, *args[1:])
        options = {"capture_output": True, "text": True, "errors": "replace", "stdin": subprocess.DEVNULL,
                   "env": self.env, "cwd": self.tmp, **options}
        return subprocess.run([os.path.join(BIN, "dsec"), *args], timeout=timeout, check=False, **options)

    def dsec(self, *args, **options):
        done = self.try_dsec(*args, **options)
        if done.returncode != 0:
            raise AssertionError(f"dsec {' '.join(args)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def compose(self, source, name, *args):
        return json.loads(self.dsec("compose", "--from", source, "--name", name, "--json", *args, timeout=600))

    def manifest(self, text, file="env.toml", *args):
        with open(self.path(file), "w", encoding="utf-8") as out:
            out.write(text)
        return json.loads(self.dsec("compose", "-f", self.path(file), "--json", *args, timeout=600))

    def mount(self, env, directory="mnt", mode="auto"):
        """Mounts in the way that `mode` says; skips when this kernel cannot do it."""
        target = self.make_dir(directory)
        done = self.try_dsec("mount", "--rootfs-mode", mode, env, target)
        if done.returncode != 0 and "object mode" in done.stderr and not self.has_object_mode():
            raise unittest.SkipTest(done.stderr.strip())
        if done.returncode != 0:
            raise AssertionError(f"dsec mount {env}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return target

    def has_object_mode(self):
        return json.loads(self.dsec("fs", "status", "--json"))["object_mode"] in ("", "yes")

    def requests(self):
        """What the kernel has asked of both mounts so far, by kind."""
        mounts = json.loads(self.dsec("fs", "status", "--json"))["requests"].values()
        return {kind: sum(counts[kind] for counts in mounts) for kind in next(iter(mounts))}

    def umount(self, directory="mnt"):
        self.dsec("umount", self.path(directory))

    def daemon_pid(self):
        done = self.try_dsec("fs", "status", "--json")
        return json.loads(done.stdout)["pid"] if done.returncode == 0 else None

    def stop_daemon(self):
        """Ends lazyfsd, so that nothing is cached any more, and waits for it."""
        pid = self.daemon_pid()
        self.dsec("fs", "stop", "--force")
        if pid is not None and not wait_until(lambda: not os.path.exists(f"/proc/{pid}"), 30):
            raise AssertionError(f"lazyfsd {pid} does not end")

    def daemon_log(self):
        text = ""
        for directory, _, files in os.walk(self.path("run", "lazyfs")):
            if "/mnt" in directory[len(self.tmp):]:
                continue
            for file in files:
                if file.endswith(".log"):
                    with open(os.path.join(directory, file), encoding="utf-8", errors="replace") as log:
                        text += log.read()
        return text

    def packs(self):
        return sorted(os.path.join(directory, file) for directory, _, files in os.walk(os.path.join(self.store, "packs"))
                      for file in files)

    def stored_bytes(self):
        return sum(os.path.getsize(pack) for pack in self.packs())

    def files(self, with_tmp=False):
        """path -> SHA-256 of everything in the store but store.toml."""
        found = {}
        for directory, _, names in os.walk(self.store):
            for name in names:
                path = os.path.relpath(os.path.join(directory, name), self.store)
                if path != "store.toml" and (with_tmp or not path.startswith("tmp/")):
                    with open(os.path.join(directory, name), "rb") as file:
                        found[path] = hashlib.file_digest(file, "sha256").hexdigest()
        return found

    def kill_all(self):
        """One round of it: a keeper may start a daemon and a daemon a keeper. Says whether nothing is left."""
        for pid in processes_of(self.tmp):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not processes_of(self.tmp)

    def close(self):
        atexit.unregister(self.close)
        if os.path.exists(self.path("run")):
            try:
                self.try_dsec("fs", "stop", "--force", timeout=20)
            except subprocess.TimeoutExpired:
                pass
            for point in reversed(mounts_below(self.tmp)):
                subprocess.run(["umount", "-l", point], check=False, capture_output=True)
            if not wait_until(lambda: not processes_of(self.tmp), 3):
                wait_until(self.kill_all, 10)
            for point in reversed(mounts_below(self.tmp)):
                subprocess.run(["umount", "-l", point], check=False, capture_output=True)
        shutil.rmtree(self.tmp, ignore_errors=True)


class WorldTest(unittest.TestCase):
    """One world for each class; prepare() fills it once."""
    maxDiff = 4000

    @classmethod
    def setUpClass(cls):
        if not BIN:
            raise unittest.SkipTest("DSEC_BIN_DIR does not say where dsec is")
        need_root()
        cls.world = World()
        cls.addClassCleanup(cls.world.close)
        cls.prepare()

    @classmethod
    def prepare(cls):
        pass

    MODE = "auto"  # of the mounts that assert_same_tree() compares
    MERGED = False  # whether object roots are of merged images, where links are counted

    def assert_same_tree(self, left, right, *ignored):
        lines = treediff(left, right, *ignored)
        if self.MODE == "objects" and not self.MERGED:
            lines = [line for line in lines if not is_merged_directory(left, line)]
        self.assertEqual(lines, [], "\n".join(["", *lines[:40]]))


def main():
    """Runs the tests of the calling script; exit 77 when all were skipped, each with its reason printed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    program = unittest.main(module="__main__", exit=False, verbosity=2)
    result = program.result
    for test, reason in result.skipped:
        print(f"skipped: {test}: {reason}", flush=True)
    if not result.wasSuccessful():
        sys.exit(1)
    # A class that is skipped as a whole counts as one skip and no run.
    sys.exit(SKIPPED if result.skipped and result.testsRun <= sum("setUpClass" not in str(t) for t, _ in result.skipped) else 0)
