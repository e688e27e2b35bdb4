# SPDX-License-Identifier: Apache-2.0
"""What a world has on this machine: memory, descriptors and threads of its daemons, mounts, cgroups, processes,
namespaces, files. Taken twice at rest, everything but memory must be the same; differences() says what is not."""
import ctypes
import glob
import os
import re
import struct

import harness

IN_MOVED_TO, IN_CREATE = 0x80, 0x100
KIB = 1 << 10
MIB = 1 << 20
EXACT = ("threads", "descriptors", "mounts", "cgroups", "processes", "namespaces", "files", "owners", "sandboxes")
NAMESPACES = ("net", "mnt", "pid", "ipc", "uts")
DAEMONS = ("lazyfs-keeper", "lazyfsd")


class SandboxIds:
    """Collects the ids of all sandboxes of a world, also of those that are killed at once."""

    def __init__(self, directory):
        os.makedirs(directory, mode=0o700, exist_ok=True)
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(directory), IN_CREATE | IN_MOVED_TO) < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        self.ids = set()

    def known(self):
        while True:
            try:
                events = os.read(self.fd, 64 * KIB)
            except BlockingIOError:
                return self.ids
            while events:
                _, _, _, size = struct.unpack_from("iIII", events)
                name = os.fsdecode(events[16:16 + size].rstrip(b"\0"))
                events = events[16 + size:]
                if name and not name.startswith("."):
                    self.ids.add(name)

    def close(self):
        os.close(self.fd)


def text_of(path):
    """Of a file of /proc, whose process may end meanwhile."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def link_of(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def child_of(pid):
    """The only child of the keeper, without asking anybody; None while there is none."""
    children = text_of(f"/proc/{pid}/task/{pid}/children").split()
    return int(children[0]) if children else None


def private_bytes(pid):
    found = re.search(r"Private_Dirty: +(\d+) kB", text_of(f"/proc/{pid}/smaps_rollup"))
    return int(found.group(1)) * KIB if found else 0


def descriptors(pid):
    """What they are, with what differs from one time to the next left out."""
    found = []
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []
    for number in numbers:
        target = link_of(f"/proc/{pid}/fd/{number}")
        found.append(re.sub(r":\[\d+\]$", "", target.removesuffix(" (deleted)")))
    return sorted(found)


def cgroups(ids):
    found = [path for below in ("*", "*/*") for path in glob.glob(f"/sys/fs/cgroup/**/dsec/{below}", recursive=True)]
    return sorted(path for path in found if os.path.isdir(path) and ids & set(path.split("/")))


def sandbox_processes(ids):
    """Those in a cgroup of a sandbox: their command line and environment need not name the world."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if ids & set(re.split(r"[/\n]", text_of(f"/proc/{pid}/cgroup"))):
            found.append(int(pid))
    return found


def files_of(world):
    """Paths of directories and files that have a place in what must not grow. What the node cache keeps of packs is
    bounded by its quota instead."""
    found = []
    for part in ("run", "state", "store", "tmp"):
        for directory, folders, names in os.walk(world.path(part)):
            folders[:] = [name for name in folders if name not in ("mnt", "mnt-xattr", "packs")]
            found += [os.path.relpath(os.path.join(directory, name), world.tmp) for name in folders + names]
    return sorted(found)


def disk_bytes(directory):
    total = 0
    for folder, _, names in os.walk(directory):
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def record_bytes(world):
    """Of what daemons write down for their successors."""
    return sum(os.path.getsize(path) for name in ("attachments", "slots")
               for path in glob.glob(world.path("run", "lazyfs", "*", name)))


class Census:
    """Of a world whose keeper runs. Asks lazyfsd for nothing but `fs status` and `ps`, before anything is counted."""

    def __init__(self, world, keeper):
        self.world, self.keeper = world, keeper
        self.ids = SandboxIds(world.path("state", "sandboxes"))

    def serving(self):
        return child_of(self.keeper)

    def take(self, status, sandboxes):
        """`status` and `sandboxes` are what `dsec fs status` and `dsec ps` said."""
        lazyfsd, ids = self.serving(), self.ids.known()
        pids = set(harness.processes_of(self.world.tmp)) | set(sandbox_processes(ids))
        ours = {"lazyfs-keeper": self.keeper, "lazyfsd": lazyfsd}
        others = pids - set(ours.values())
        return {
            "pid": lazyfsd,
            "keeper": status["keeper"]["pid"],
            "restarts": status["keeper"]["restarts"],
            "memory": {name: private_bytes(pid) for name, pid in ours.items()},
            "threads": {name: len(os.listdir(f"/proc/{pid}/task")) for name, pid in ours.items()},
            "descriptors": {name: descriptors(pid) for name, pid in ours.items()},
            "mounts": self.mounts(),
            "cgroups": cgroups(ids),
            "processes": sorted(text_of(f"/proc/{pid}/comm").strip() + f" {pid}" for pid in others
                                if os.path.exists(f"/proc/{pid}")),
            "namespaces": sorted({kind for pid in pids for kind in NAMESPACES if self.is_own(pid, kind)}),
            "files": files_of(self.world),
            "owners": sorted(owner for env in status["attached"] for owner in env["owners"]),
            "sandboxes": sandboxes,
            "records": record_bytes(self.world),
            "cache": disk_bytes(self.world.path("state", "cache", "packs")),
        }

    def mounts(self):
        return sorted(line.split(" - ")[1].split()[0] + " " + line.split()[4] for line in
                      text_of("/proc/self/mountinfo").splitlines() if self.world.tmp in line or self.is_namespace(line))

    def is_namespace(self, line):
        return " nsfs " in line and bool(self.ids.ids & set(re.split(r"[/ ]", line)))

    @staticmethod
    def is_own(pid, kind):
        theirs = link_of(f"/proc/{pid}/ns/{kind}")
        return theirs != "" and theirs != link_of(f"/proc/self/ns/{kind}")

    def close(self):
        self.ids.close()


def differences(before, after):
    """Lines, one for each thing that is there now and was not, or the other way round."""
    found = []
    for what in EXACT:
        old, new = before[what], after[what]
        of_daemons = [(f"{what} of {name}", old[name], new[name]) for name in DAEMONS] if isinstance(old, dict) else []
        for title, was, now in of_daemons or [(what, old, new)]:
            if was != now:
                found.append(f"{title}: {change(was, now)}")
    return found


def change(was, now):
    if not isinstance(was, list):
        return f"{was} became {now}"
    more, less = list(now), []
    for one in was:
        if one in more:
            more.remove(one)
        else:
            less.append(one)
    return f"{len(was)} became {len(now)}; new: {more[:8]}, gone: {less[:8]}"


def growth_bound(before, least):
    return before + max(least, before // 5)
