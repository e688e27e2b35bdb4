# SPDX-License-Identifier: Apache-2.0
"""How long readers wait when lazyfsd is killed or replaced, and how long it takes until the next one serves."""

import array
import json
import math
import mmap
import multiprocessing
import os
import random
import signal
import time
import zlib

import trees
from measuring import Case, Failed, Sample
from mounts import Lazy

WHAT = "the longest wait of any reader and the time until the next lazyfsd serves, at kill -9 and at dsec fs upgrade"

SEED = 20240503
BLOCK = 64 << 10
BIG_BYTES = 64 << 20
PAUSE_S = 0.001    # between two reads of a reader: it waits for lazyfsd, not for a processor
NOTHING_S = 0.1    # how long nothing happens, to compare with
SETTLE_S = 0.1     # after an action, still observed
HANG_S = 90        # a reader that completes nothing for so long
ACTIONS = ("nothing", "kill -9", "fs upgrade")


def run(bench):
    bench.need_root()
    tree = prepare(bench)
    bench.dsec("compose", "--from", f"dir:{tree}", "--name", "restart")
    count = 3 if bench.tiny else 30
    readers = 4 if bench.tiny else 8
    bench.parameters.update({"readers": f"{readers} (half warm)", "times": count, "pause ms": PAUSE_S * 1e3})
    for mode in ("tree", "objects"):
        mounted = Lazy(bench, mode, "restart")
        bench.undo.append(mounted.down)
        mounted.up()
        measure(bench, mode, Readers(tree, mounted.path, readers), count)
        mounted.down()


def prepare(bench):
    """Small files and a big one; made once."""
    tree = bench.path("restart-tiny" if bench.tiny else "restart-tree")
    if not os.path.exists(tree):
        made = tree + ".tmp"
        os.makedirs(made, exist_ok=True)
        trees.make_synthetic(made)
        trees.make_big(os.path.join(made, trees.BIG_FILE), trees.TINY_BIG_BYTES if bench.tiny else BIG_BYTES)
        os.rename(made, tree)
    return tree


class Readers:
    """Processes that read at random and compare what they get. Cold ones read past the page cache, so that lazyfsd is asked
    each time; warm ones what the kernel has."""

    def __init__(self, tree, root, count):
        self.root, self.count = root, count
        self.blocks = {True: [], False: []}  # direct -> (path, offset, checksum)
        for directory, _, names in os.walk(tree):
            for name in names:
                path = os.path.join(directory, name)
                if not os.path.islink(path):
                    self.add_file(os.path.relpath(path, tree), path)
        self.hash = f"{zlib.crc32(repr(sorted(self.blocks[True])).encode()):08x}"
        self.processes = []

    def add_file(self, name, path):
        with open(path, "rb") as file:
            offset = 0
            while data := file.read(BLOCK):
                block = (name, offset, zlib.crc32(data))
                self.blocks[True].append(block)
                if name != trees.BIG_FILE:
                    self.blocks[False].append(block)
                offset += len(data)

    def __enter__(self):
        for name, offset, checksum in self.blocks[False]:
            check(self.root, name, offset, checksum, 0, mmap.mmap(-1, BLOCK))
        context = multiprocessing.get_context("fork")
        self.stop = context.Event()
        self.completed = context.RawArray("Q", self.count)  # reads, of each reader
        for number in range(self.count):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=self.read, args=(number, number % 2 == 0, theirs), daemon=True)
            process.start()
            theirs.close()
            self.processes.append((process, ours))
        return self

    def read(self, number, is_cold, pipe):
        """The process of one reader; sends (is cold, times at which a read was complete, what was wrong)."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        chance, buffer, ends, wrong = random.Random(SEED + number), mmap.mmap(-1, BLOCK), array.array("d"), ""
        while not self.stop.is_set() and not wrong:
            name, offset, checksum = chance.choice(self.blocks[is_cold])
            try:
                check(self.root, name, offset, checksum, os.O_DIRECT if is_cold else 0, buffer)
            except (OSError, Failed) as error:
                wrong = str(error)
            ends.append(time.monotonic())
            self.completed[number] += 1
            time.sleep(PAUSE_S)
        pipe.send((is_cold, ends.tobytes(), wrong))

    def settle(self):
        """Returns when every reader has begun and completed a read since: nobody waits for what was before."""
        goal, until = [completed + 2 for completed in self.completed], time.monotonic() + HANG_S
        time.sleep(SETTLE_S)
        while any(completed < wanted and process.is_alive()
                  for completed, wanted, (process, _) in zip(self.completed, goal, self.processes)):
            if time.monotonic() > until:
                raise Failed("a reader hangs")
            time.sleep(PAUSE_S)

    def results(self):
        """[(is cold, times)], after all have stopped."""
        self.stop.set()
        results = []
        for process, pipe in self.processes:
            if not pipe.poll(HANG_S):
                raise Failed("a reader hangs")
            is_cold, data, wrong = pipe.recv()
            process.join()
            if wrong:
                raise Failed(f"a reader: {wrong}")
            times = array.array("d")
            times.frombytes(data)
            results.append((is_cold, times))
        return results

    def __exit__(self, *_):
        self.stop.set()
        for process, pipe in self.processes:
            process.kill()
            process.join()
            pipe.close()
        self.processes = []


def check(root, name, offset, checksum, flags, buffer):
    fd = os.open(os.path.join(root, name), os.O_RDONLY | flags)
    try:
        size = os.preadv(fd, [buffer], offset)
    finally:
        os.close(fd)
    if zlib.crc32(buffer[:size]) != checksum:
        raise Failed(f"{name} at {offset}: WRONG BYTES")


def measure(bench, mode, readers, count):
    chance = random.Random(SEED)
    windows = {action: [] for action in ACTIONS}  # (begin, when it served, end)
    with readers:
        for _ in range(count):
            for action in ACTIONS:
                time.sleep(chance.uniform(0.05, 0.15))
                begin = time.monotonic()
                act(bench, action)
                served = time.monotonic()
                readers.settle()
                windows[action].append((begin, served, time.monotonic()))
        results = readers.results()
    for is_cold, kind in ((True, "cold"), (False, "warm")):
        times = [one for cold, one in results if cold == is_cold]
        add(bench, f"longest wait, {kind}, {mode}", readers.hash,
            {action: [longest_wait(times, begin, end) for begin, _, end in windows[action]] for action in ACTIONS})
    add(bench, f"until the next serves, {mode}", readers.hash,
        {action: [served - begin for begin, served, _ in windows[action]] for action in ACTIONS[1:]})


def add(bench, title, work, seconds):
    """A case of action -> seconds, and the 99th percentile of each as a number of its own."""
    bench.add(Case(title, {action: [Sample(one * 1e3, work) for one in ones] for action, ones in seconds.items()}))
    for action, ones in seconds.items():
        if action != "nothing":
            bench.fact(f"{title}, {action}, p99", sorted(ones)[math.ceil(0.99 * len(ones)) - 1] * 1e3, "ms")


def act(bench, action):
    """Returns when lazyfsd, or the next one, answers."""
    if action == "nothing":
        time.sleep(NOTHING_S)
        return
    if action == "fs upgrade":
        bench.dsec("fs", "upgrade")
        return
    os.kill(serving_pid(bench), signal.SIGKILL)
    bench.dsec("fs", "status")


def serving_pid(bench):
    """Of the keeper's child, so that lazyfsd is not asked."""
    if not hasattr(bench, "keeper"):
        bench.keeper = json.loads(bench.dsec("fs", "status", "--json"))["keeper"]["pid"]
    with open(f"/proc/{bench.keeper}/task/{bench.keeper}/children", encoding="ascii") as file:
        return int(file.read().split()[0])


def longest_wait(times, begin, end):
    """From one completed read to the next, of any reader, as far as it touches the window. A window ends when nobody waits
    any more (settle()), so that no wait is counted for two actions."""
    longest = 0.0
    for ends in times:
        for before, after in zip(ends, ends[1:]):
            if after > begin and before < end:
                longest = max(longest, after - before)
    return longest
