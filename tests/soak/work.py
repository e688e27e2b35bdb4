# SPDX-License-Identifier: Apache-2.0
"""What the soak's workers do: one class with a method for each kind of operation. Whatever an operation finds wrong is a
Wrong, with the command and what it said."""
import json
import os
import signal
import socket
import subprocess
import threading
import time

import harness
import load
from census import text_of

MODES = ("tree", "objects")
PATIENCE = 120  # seconds for one command, of those that this process itself runs
MOUNTS = 3      # of a worker, at most


class Wrong(Exception):
    """An operation failed or had a wrong result."""


class Clock:
    """Seconds that this process has run: it may be stopped for minutes, and that is nobody's failure."""
    TICK, LONGEST = 0.1, 2.0

    def __init__(self):
        self.seconds, self.stopped = 0.0, 0.0
        self.is_over = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        last = time.monotonic()
        while not self.is_over.wait(self.TICK):
            now = time.monotonic()
            self.seconds += min(now - last, self.LONGEST)
            self.stopped += max(0.0, now - last - self.LONGEST)
            last = now

    def close(self):
        self.is_over.set()
        self.thread.join()


class Worker:
    """Has its own mounts and chance; the commands that it runs share the world."""
    recording = threading.Lock()  # one sandbox at a time may be recorded for an environment

    def __init__(self, world, envs, clock, number, chance):
        self.world, self.envs, self.clock, self.number, self.chance = world, envs, clock, number, chance
        self.mounted = {}  # directory -> (environment, mode)
        self.counts = {}
        self.manifests = {}
        self.longest = (0.0, "")
        self.stopping = threading.Event()

    # Commands.

    def start(self, *args):
        return subprocess.Popen([os.path.join(harness.BIN, "dsec"), *args], env=self.world.env, cwd=self.world.tmp,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                errors="replace")

    def end(self, process):
        """Waits for a process; (exit status, output, errors)."""
        deadline = self.clock.seconds + PATIENCE
        while True:
            try:
                out, err = process.communicate(timeout=1)
                return process.returncode, out, err
            except subprocess.TimeoutExpired:
                if self.clock.seconds > deadline or self.stopping.is_set():
                    process.kill()
                    process.communicate()
                    raise Wrong(f"{said(process.args)}: no end after {PATIENCE} s") from None

    def dsec(self, *args, status=0):
        code, out, err = self.end(self.start(*args))
        if code != status:
            raise Wrong(f"dsec {said(args)}: exit {code} instead of {status}\n{out[-1500:]}{err[-1500:]}")
        return out

    def expect(self, condition, *what):
        if not condition:
            raise Wrong(" ".join(map(str, what)))

    # Operations.

    def do(self, kind):
        """Does one operation of a kind and counts it; None, or what was wrong."""
        begin = self.clock.seconds
        try:
            if getattr(self, kind)() is False:
                return None  # there was nothing to do it with
        except Wrong as wrong:
            return f"{kind}, worker {self.number}: {wrong}"
        except OSError as error:
            return f"{kind}, worker {self.number}: {error}, of {self.mounted}"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.longest = max(self.longest, (self.clock.seconds - begin, kind))
        return None

    def some_env(self, can_run=False):
        return self.chance.choice([env for env in self.envs if env.can_run or not can_run])

    def compose(self):
        env = self.some_env()
        path = self.manifests[env.name]
        made = json.loads(self.dsec("compose", "-f", path, "--json"))
        self.expect(made["env"] == env.digest, f"compose -f {path}: {made['env']}, not {env.digest}")
        self.expect(made["new_chunks"] == 0, f"compose -f {path}: {made['new_chunks']} chunks are new")

    def run_and_verify(self, mode, *options):
        env = self.some_env(can_run=True)
        files = self.chance.sample(env.files(), 3)
        names = " ".join("/" + os.fsdecode(path) for path in files)
        code = self.chance.choice((0, 3))
        out = self.dsec("run", "--rootfs-mode", mode, *options, env.name, "sh", "-c",
                        f"sha256sum {names} && echo new >/tmp/new && exit {code}", status=code)
        expected = [[env.contents[path], "/" + os.fsdecode(path)] for path in files]
        self.expect([line.split() for line in out.splitlines()] == expected, f"run {mode} {env.name}: WRONG BYTES\n{out}")

    def run_tree(self):
        self.run_and_verify("tree")

    def run_objects(self):
        self.run_and_verify("objects", "--memory", "64M")

    def run_eager(self):
        self.run_and_verify(self.chance.choice(MODES), "--eager")

    def run_recorded(self):
        with self.recording:
            self.run_and_verify("auto", "--record")

    def run_kept(self):
        name = f"kept-{self.number}"
        self.run_and_verify(self.chance.choice(MODES), "--keep", "--name", name)
        self.dsec("rm", name)

    def run_timeout(self):
        self.dsec("run", "--rootfs-mode", self.chance.choice(MODES), "--timeout", "1s", self.some_env(can_run=True).name,
                  "sh", "-c", "sleep 1000 & sleep 1000", status=124)

    def run_killed(self):
        """The client, or the monitor below it, at some moment."""
        env, mode = self.some_env(can_run=True), self.chance.choice(MODES)
        victim = self.chance.choice(("client", "monitor"))
        process = self.start("run", "--rootfs-mode", mode, env.name, "sh", "-c", "cat /data/*/* >/dev/null; sleep 1000")
        time.sleep(self.chance.uniform(0, 0.15))
        if victim == "monitor":
            harness.wait_until(lambda: process.poll() is not None or monitors_of(process.pid), 30)
        for pid in monitors_of(process.pid) if victim == "monitor" else [process.pid]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        code, _, err = self.end(process)
        wanted = 125 if victim == "monitor" else -signal.SIGKILL
        self.expect(code == wanted, f"run {mode} {env.name}, {victim} killed: exit {code}, not {wanted}\n{err}")

    def mount(self):
        directory = self.world.path(f"mnt-{self.number}-{len(self.mounted)}")
        if len(self.mounted) == MOUNTS:
            return False
        env, mode = self.some_env(), self.chance.choice(MODES)
        os.makedirs(directory, exist_ok=True)
        self.dsec("mount", "--rootfs-mode", mode, env.name, directory)
        self.mounted[directory] = (env, mode)
        return self.read_from(directory)

    def umount(self):
        if not self.mounted:
            return False
        directory, (env, mode) = self.mounted.popitem()
        self.dsec("umount", directory)
        os.rmdir(directory)  # nothing is mounted there any more
        return None

    def read(self):
        if not self.mounted:
            return False
        return self.read_from(self.chance.choice(list(self.mounted)))

    def read_from(self, directory):
        env, mode = self.mounted[directory]
        root = os.fsencode(directory)
        files = [path for path in env.contents if env.contents[path]]
        for path in self.chance.sample(files, min(6, len(files))):
            direct = self.chance.random() < 0.7
            digest = load.file_digest(os.path.join(root, path), direct)
            self.expect(digest == env.contents[path], f"{mode} of {env.name}: {path}: WRONG BYTES, direct {direct}")
        if self.chance.random() < 0.2:
            names = {os.path.relpath(path, root) for path in load.paths_below(root)}
            self.expect(names == set(env.contents), f"{mode} of {env.name}: other names: {names ^ set(env.contents)}")

    def evict(self):
        self.dsec("fs", "evict", *self.chance.choice(([], ["--all"], ["--bytes", "2M"], [self.some_env().name])))

    def prefetch(self):
        env = self.some_env(can_run=True)
        self.dsec("prefetch", *self.chance.choice(([], ["--all"])), env.name)

    def stats(self):
        seen = json.loads(self.dsec("fs", "stats", "--json"))
        chunks = seen["chunks"]
        self.expect(chunks["wrong_bytes"] == chunks["corrupt"] == seen["deadline_answers"] == 0, f"fs stats: {chunks}")
        for args in (["fs", "status"], ["fs", "inflight"], ["ps"], ["fs", "top", "--iterations", "1"]):
            self.dsec(*args)

    def info(self):
        if not self.mounted:
            return False
        directory = self.chance.choice(list(self.mounted))
        env, _ = self.mounted[directory]
        path = self.chance.choice(env.files())
        self.dsec("fs", "info", os.path.join(directory, os.fsdecode(path)))
        return None

    def trace(self):
        process = self.start("fs", "trace")
        time.sleep(0.4)
        process.send_signal(signal.SIGINT)
        code, _, err = self.end(process)
        self.expect(code in (0, -signal.SIGINT), f"fs trace, interrupted: exit {code}\n{err}")

    def metrics(self):
        """Now and then one that goes away before it has the answer."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(PATIENCE)
            try:
                connection.connect(self.world.path("metrics"))
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                if self.chance.random() < 0.3:
                    return
                answer = b""
                while part := connection.recv(1 << 16):
                    answer += part
            except ConnectionError:
                return  # who listened was replaced
        self.expect(answer.startswith(b"HTTP/1.1 200") or not answer, f"metrics: {answer[:200]}")

    def do_replace(self, kind, pid, census):
        """`kill` or `upgrade` of the lazyfsd `pid`; returns when the next one serves. As do()."""
        begin = self.clock.seconds
        try:
            if kind == "upgrade":
                self.expect("took over" in self.dsec("fs", "upgrade"), "fs upgrade: nobody took over")
            else:
                os.kill(pid, signal.SIGKILL)
            while census.serving() in (pid, None):
                self.expect(self.clock.seconds < begin + PATIENCE, f"{kind} of {pid}: nobody serves after {PATIENCE} s")
                time.sleep(0.02)
            self.dsec("fs", "status")
        except (Wrong, OSError) as wrong:
            return f"{kind} of {pid}: {wrong}"
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return None

    def unmount_all(self):
        while self.mounted:
            self.umount()


# How often, against the others.
KINDS = {"compose": 3, "run_tree": 8, "run_objects": 8, "run_eager": 2, "run_recorded": 3, "run_kept": 2,
         "run_timeout": 1, "run_killed": 5, "mount": 12, "umount": 11, "read": 16, "evict": 3, "prefetch": 3, "stats": 3,
         "info": 2, "trace": 2, "metrics": 3}


def said(args):
    return " ".join(map(str, args))


def monitors_of(pid):
    children = [int(child) for task in list_of(f"/proc/{pid}/task")
                for child in text_of(f"/proc/{pid}/task/{task}/children").split()]
    return [child for child in children if text_of(f"/proc/{child}/comm").strip() == "dsec-monitor"]


def list_of(directory):
    try:
        return os.listdir(directory)
    except OSError:
        return []
