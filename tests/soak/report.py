# SPDX-License-Identifier: Apache-2.0
"""What a soak prints: a row for each rest point as it is reached; in the end operations, each daemon's life, the peak."""
import resource

MIB = 1 << 20


class Report:
    def __init__(self, seed, clock):
        self.seed, self.clock = seed, clock
        self.points = []
        self.peak_bytes = 0

    def peak(self, size):
        self.peak_bytes = max(self.peak_bytes, size)

    def add(self, period, seen, workers):
        if not self.points:
            print(f"\n{'time s':>7} {'period':8} {'operations':>10} {'lazyfsd':>8} {'restarts':>8} {'MiB':>7} {'fds':>4} {'threads':>7}  "
                  f"{'keeper MiB':>10} {'fds':>4} {'mounts':>6} {'files':>6} {'cache MiB':>9} {'records B':>9}")
        count = sum(sum(worker.counts.values()) for worker in workers)
        self.points.append((self.clock.seconds, period, count, seen))
        self.peak(seen["memory"]["lazyfsd"])
        print(f"{self.clock.seconds:7.0f} {period:8} {count:10} {seen['pid']:8} {seen['restarts']:8} "
              f"{seen['memory']['lazyfsd'] / MIB:7.2f} {len(seen['descriptors']['lazyfsd']):4} {seen['threads']['lazyfsd']:7}  "
              f"{seen['memory']['lazyfs-keeper'] / MIB:10.2f} {len(seen['descriptors']['lazyfs-keeper']):4} "
              f"{len(seen['mounts']):6} {len(seen['files']):6} {seen['cache'] / MIB:9.2f} {seen['records']:9}", flush=True)

    def lives(self):
        """pid -> the points at which this lazyfsd served."""
        lives = {}
        for point in self.points:
            lives.setdefault(point[3]["pid"], []).append(point)
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
                (begin, _, first, old), (end, _, last, new) = points[0], points[-1]
                grown = new["memory"]["lazyfsd"] - old["memory"]["lazyfsd"]
                print(f"lazyfsd {pid}: {end - begin:.0f} s, {last - first} operations, private memory "
                      f"{old['memory']['lazyfsd'] / MIB:.2f} to {new['memory']['lazyfsd'] / MIB:.2f} MiB, "
                      f"{grown / max(1, last - first):+.0f} B each")
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        cpu = sum(one.ru_utime + one.ru_stime for one in used)
        print(f"peak {self.peak_bytes / MIB:.2f} MiB; longest operation {longest[0]:.1f} s ({longest[1]}); "
              f"stopped for {self.clock.stopped:.0f} s; {cpu:.0f} s of CPU without daemons", flush=True)
