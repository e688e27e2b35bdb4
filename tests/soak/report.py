# SPDX-License-Identifier: Apache-2.0
"""What a soak prints: a row for each rest point as it is reached; in the end operations, each daemon's life, the peak."""
import resource

MIB = 1 << 20
HEAD = ("time s", "period", "operations", "lazyfsd", "restarts", "MiB", "fds", "threads", "keeper MiB", "fds", "mounts",
        "files", "cache MiB", "records")


def row(values):
    return "  ".join(f"{value:>{max(len(title), 5)}}" for title, value in zip(HEAD, values))


class Report:
    def __init__(self, seed, clock):
        self.seed, self.clock = seed, clock
        self.points = []  # (time, operations, census)
        self.peak_bytes = 0

    def peak(self, size):
        self.peak_bytes = max(self.peak_bytes, size)

    def add(self, period, seen, workers):
        if not self.points:
            print("\n" + row(HEAD))
        count = sum(sum(worker.counts.values()) for worker in workers)
        memory, fds = seen["memory"], seen["descriptors"]
        self.points.append((self.clock.seconds, count, seen))
        self.peak(memory["lazyfsd"])
        print(row((f"{self.clock.seconds:.0f}", period, count, seen["pid"], seen["restarts"],
                   f"{memory['lazyfsd'] / MIB:.2f}", len(fds["lazyfsd"]), seen["threads"]["lazyfsd"],
                   f"{memory['lazyfs-keeper'] / MIB:.2f}", len(fds["lazyfs-keeper"]), len(seen["mounts"]),
                   len(seen["files"]), f"{seen['cache'] / MIB:.2f}", seen["records"])), flush=True)

    def lives(self):
        """pid -> the points at which this lazyfsd served."""
        lives = {}
        for point in self.points:
            lives.setdefault(point[2]["pid"], []).append(point)
        return lives

    def print(self, workers):
        totals, longest = {}, (0.0, "")
        for worker in workers:
            longest = max(longest, worker.longest)
            for kind, count in worker.counts.items():
                totals[kind] = totals.get(kind, 0) + count
        print(f"\nseed {self.seed}; {sum(totals.values())} operations: "
              + ", ".join(f"{kind} {count}" for kind, count in sorted(totals.items())))
        for pid, points in self.lives().items():
            if len(points) > 1:
                (begin, first, old), (end, last, new) = points[0], points[-1]
                was, now = old["memory"]["lazyfsd"], new["memory"]["lazyfsd"]
                print(f"lazyfsd {pid}: {end - begin:.0f} s, {last - first} operations, private memory {was / MIB:.2f} to "
                      f"{now / MIB:.2f} MiB, {(now - was) / max(1, last - first):+.0f} B each")
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        cpu = sum(one.ru_utime + one.ru_stime for one in used)
        print(f"peak {self.peak_bytes / MIB:.2f} MiB; longest operation {longest[0]:.1f} s ({longest[1]}); "
              f"stopped for {self.clock.stopped:.0f} s; {cpu:.0f} s of CPU without daemons", flush=True)
