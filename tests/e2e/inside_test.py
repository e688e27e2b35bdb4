#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Seeing inside a running lazyfsd: what its counters, xattrs, traces and metrics say of what a reader did."""
import errno
import json
import os
import pty
import random
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest

import exposition
import harness
from harness import WorldTest

SEED = 20240611
DOCUMENT = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "docs", "observing.md")
VERBS = (["stats"], ["inflight"], ["evict"], ["top", "--iterations", "1"], ["trace"])


class Inside(WorldTest):
    @classmethod
    def prepare(cls):
        print(f"seed {SEED}", flush=True)
        cls.metrics = cls.world.path("metrics")
        with open(cls.world.path("lazyfsd.toml"), "w", encoding="utf-8") as settings:
            settings.write(f'node_cache = "on"\nmetrics_listen = "unix:{cls.metrics}"\nrecord = "off"\nprefetch = "off"\n')
        rng = random.Random(SEED)
        cls.contents = {"small": rng.randbytes(3000), "large": rng.randbytes(2 << 20), "empty": b""}
        tree = cls.world.make_dir("tree", "dir")
        for name, content in cls.contents.items():
            with open(os.path.join(tree, name), "wb") as file:
                file.write(content)
        cls.world.compose(f"dir:{cls.world.path('tree')}", "env")
        marked = cls.world.make_dir("marked")
        with open(os.path.join(marked, "file"), "wb") as file:
            file.write(rng.randbytes(200000))
        os.setxattr(os.path.join(marked, "file"), "user.own", b"mine")
        cls.world.compose(f"dir:{marked}", "marked")

    def begin_cold(self):
        """Nothing is cached and nobody serves."""
        if self.world.daemon_pid() is not None:
            self.world.stop_daemon()
        shutil.rmtree(self.world.path("state", "cache"), ignore_errors=True)
        if os.path.exists(self.metrics):
            os.remove(self.metrics)

    def tearDown(self):
        if os.path.ismount(self.world.path("mnt")):
            self.world.umount()

    def fs(self, *args):
        return json.loads(self.world.dsec("fs", *args, "--json"))

    def read(self, path):
        """Past the pages that the kernel has."""
        with open(path, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            content = file.read()
        self.assertEqual(content, self.contents[os.path.basename(path)])

    def chunks(self):
        """Chunks given to readers so far, by origin."""
        chunks = self.fs("stats")["chunks"]
        return {origin: chunks[origin]["chunks"] for origin in ("memory", "disk", "store")}

    def asked(self, path):
        """Where the chunks of one reading came from."""
        before = self.chunks()
        self.read(path)
        return {origin: count - before[origin] for origin, count in self.chunks().items() if count != before[origin]}

    def test_without_a_daemon_every_verb_says_so(self):
        self.begin_cold()
        expected = self.world.try_dsec("fs", "status")
        self.assertEqual(expected.returncode, 125)
        for verb in VERBS:
            done = self.world.try_dsec("fs", *verb)
            self.assertEqual((done.returncode, done.stderr), (expected.returncode, expected.stderr), verb)

    def test_a_reading_comes_from_the_store_then_memory_then_disk_and_after_evict_from_the_store(self):
        for mode in ("tree", "objects"):
            with self.subTest(mode):
                self.begin_cold()
                large = os.path.join(self.world.mount("env", "mnt", mode), "dir", "large")
                first = self.asked(large)
                self.assertGreater(first.get("store", 0), 0)
                self.assertEqual(set(self.asked(large)), {"memory"})
                self.world.umount()
                self.world.stop_daemon()  # and with it what is in memory
                large = os.path.join(self.world.mount("env", "mnt", mode), "dir", "large")
                self.assertEqual({origin for origin in self.asked(large) if origin != "memory"}, {"disk"})
                gone = self.fs("evict", "--all")
                self.assertGreater(gone["node_cache_bytes"], 2 << 20)
                self.assertGreater(gone["memory_bytes"], 2 << 20)
                self.assertGreater(self.asked(large).get("store", 0), 0)
                self.world.umount()

    def test_stats_of_an_environment_and_amplification(self):
        self.begin_cold()
        mounted = self.world.mount("env", "mnt", "tree")
        self.read(os.path.join(mounted, "dir", "large"))
        stats = self.fs("stats", "env")
        self.assertEqual(len(stats["envs"]), 1)
        env = stats["envs"][0]
        self.assertEqual(env["read_bytes"], 2 << 20)
        self.assertGreater(env["store_bytes"], 2 << 20)
        self.assertAlmostEqual(env["amplification"], env["store_bytes"] / env["touched_bytes"])
        self.assertGreaterEqual(stats["store_bytes"]["demand"], env["store_bytes"])
        self.assertEqual(stats["store_bytes"]["prefetch"], 0)
        self.assertGreaterEqual(stats["amplification"], 1)
        read = stats["requests"]["read"]
        self.assertEqual(read["count"], sum(read["buckets"]))
        self.assertGreater(read["p99_us"], 0)
        self.assertIn("--bytes", self.world.try_dsec("fs", "evict", "env", "--bytes", "1M").stderr)
        self.assertIn("amplification:", self.world.dsec("fs", "stats"))
        done = self.world.try_dsec("fs", "stats", "marked")
        self.assertIn("is not attached", done.stderr)

    def test_what_is_fetched_ahead_is_told_from_what_readers_waited_for(self):
        self.begin_cold()
        mounted = self.world.mount("env", "mnt", "tree")
        self.world.dsec("prefetch", "--all", "env")
        fetched = self.fs("stats")["store_bytes"]
        self.assertGreater(fetched["prefetch"], 2 << 20)
        self.assertEqual(set(self.asked(os.path.join(mounted, "dir", "large"))) - {"memory"}, {"disk"})
        self.assertEqual(self.fs("stats")["store_bytes"], {"demand": 0, "prefetch": fetched["prefetch"]})
        families = self.scrape()
        self.assertEqual(exposition.value(families, "dsec_lazyfs_store_bytes_total", urgency="prefetch"), fetched["prefetch"])

    def test_evict_of_one_environment_leaves_the_others(self):
        self.begin_cold()
        mounted = self.world.mount("env", "mnt", "tree")
        self.read(os.path.join(mounted, "dir", "large"))
        other = self.world.mount("marked", "other", "tree")
        self.addCleanup(self.world.umount, "other")
        with open(os.path.join(other, "file"), "rb") as file:
            file.read()
        self.fs("evict", "marked", "--all")
        where = self.fs("info", os.path.join(other, "file"))["cached"]
        self.assertEqual((where["memory"]["chunks"], where["disk"]["chunks"]), (0, 0))
        self.assertEqual(set(self.asked(os.path.join(mounted, "dir", "large"))), {"memory"})

    def test_xattrs_say_digest_layer_and_place_and_no_listing_has_them(self):
        self.begin_cold()
        file = os.path.join(self.world.mount("marked", "mnt", "tree"), "file")
        get = lambda name: os.getxattr(file, "user.lazyfs." + name).decode()
        self.assertEqual(os.listxattr(file), ["user.own"])
        with self.assertRaises(OSError) as caught:
            get("none")
        self.assertEqual(caught.exception.errno, errno.ENODATA)
        chunks = int(get("chunks"))
        self.assertEqual(get("cached"), f"memory=0 disk=0 store={chunks}")
        for name in ("digest", "layer", "env"):
            self.assertRegex(get(name), r"^[0-9a-f]{64}$")
        with open(file, "rb") as reader:
            reader.read()
        self.assertEqual(get("cached"), f"memory={chunks} disk=0 store=0")
        info = self.fs("info", file)
        self.assertEqual((info["digest"], info["layer"], info["env"]), (get("digest"), get("layer"), get("env")))
        self.assertEqual(os.listxattr(file), ["user.own"])

    def test_info_finds_a_file_in_every_kind_of_mount(self):
        digests = set()
        for mode in ("tree", "objects"):
            mounted = self.world.mount("env", "mnt", mode)
            info = self.fs("info", os.path.join(mounted, "dir", "large"))
            self.assertEqual((info["type"], info["size"], info["path_in_layer"]), ("file", 2 << 20, "/dir/large"))
            self.assertEqual(info["chunks"], sum(share["chunks"] for share in info["cached"].values()))
            digests.add(info["digest"])
            self.world.umount()
        self.assertEqual(len(digests), 1)

    def test_info_in_an_overlay_above_an_environment(self):
        self.world.mount("env", "mnt", "tree")
        attached = json.loads(self.world.dsec("fs", "status", "--json"))["attached"]
        lower = next(one["path"] for one in attached if f"mount:{self.world.path('mnt')}" in one["owners"])
        over, upper, work = (self.world.make_dir("overlay", name) for name in ("over", "upper", "work"))
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", f"lowerdir={lower},upperdir={upper},workdir={work}", over],
                       check=True)
        self.addCleanup(subprocess.run, ["umount", over], check=True)
        self.assertEqual(self.fs("info", os.path.join(over, "dir", "small"))["size"], 3000)
        with open(os.path.join(over, "dir", "small"), "ab") as file:
            file.write(b"more")
        done = self.world.try_dsec("fs", "info", os.path.join(over, "dir", "small"))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("was written", done.stderr)

    def test_info_says_what_else_is_there(self):
        self.world.mount("env", "mnt", "tree")
        self.assertIn("not on an environment", self.world.try_dsec("fs", "info", "/proc/self/status").stderr)
        self.assertIn("No such file", self.world.try_dsec("fs", "info", self.world.path("mnt", "none")).stderr)
        empty = self.fs("info", self.world.path("mnt", "dir", "empty"))
        self.assertEqual((empty["size"], empty["digest"], empty["chunks"]), (0, None, 0))
        self.assertEqual(self.fs("info", self.world.path("mnt", "dir"))["type"], "directory")

    def start_trace(self, *args):
        trace = subprocess.Popen([os.path.join(harness.BIN, "dsec"), "fs", "trace", *args], env=self.world.env,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: (trace.kill(), trace.communicate()))
        return trace

    def end_trace(self, trace):
        trace.send_signal(signal.SIGINT)
        output, errors = trace.communicate(timeout=20)
        self.assertEqual((trace.returncode, errors), (0, ""))
        return output

    def test_trace_shows_a_read_and_ends_cleanly(self):
        small = os.path.join(self.world.mount("env", "mnt", "tree"), "dir", "small")
        trace = self.start_trace("--json", "env")
        events = []
        for _ in range(100):  # until it listens
            self.read(small)
            self.fs("evict", "--all")
            time.sleep(0.1)
            if self.fs("stats")["tracing"]:
                break
        self.read(small)
        time.sleep(0.3)
        events = [json.loads(line) for line in self.end_trace(trace).splitlines()]
        reads = [event for event in events if event["operation"] == "read"]
        self.assertTrue(reads)
        self.assertEqual((reads[-1]["path"], reads[-1]["offset"], reads[-1]["error"]), ("/dir/small", 0, None))
        self.assertEqual(sum(reads[-1]["chunks"].values()), 1)
        self.assertGreaterEqual(reads[-1]["took_us"], 0)
        self.assertTrue(harness.wait_until(lambda: not self.fs("stats")["tracing"]))

    def test_top_off_a_terminal_prints_plain_lines(self):
        self.world.mount("env", "mnt", "tree")
        output = self.world.dsec("fs", "top", "--iterations", "1")
        self.assertNotIn("\x1b", output)
        self.assertEqual([line.split()[0] for line in output.splitlines()[:2]], ["ENV", "all"])
        line = json.loads(self.world.dsec("fs", "top", "--iterations", "1", "--json"))
        self.assertGreater(line["seconds"], 0.9)
        self.assertGreaterEqual(len(line["envs"]), 1)

    def test_top_on_a_terminal_draws_over_itself_and_ctrl_c_ends_it(self):
        self.world.mount("env", "mnt", "tree")
        leader, follower = pty.openpty()
        top = subprocess.Popen([os.path.join(harness.BIN, "dsec"), "fs", "top"], env=self.world.env, stdout=follower,
                               stderr=subprocess.PIPE)
        self.addCleanup(lambda: (top.kill(), top.communicate(), os.close(leader)))
        os.close(follower)
        drawn = b""
        while drawn.count(b"\x1b[H\x1b[J") < 2:
            drawn += os.read(leader, 4096)
        top.send_signal(signal.SIGINT)
        self.assertEqual((top.communicate(timeout=20)[1], top.returncode), (b"", 0))

    def test_nothing_is_in_flight_when_nobody_waits(self):
        self.world.mount("env", "mnt", "tree")
        self.assertEqual(self.fs("inflight"), {"requests": []})

    def ask(self, request):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(20)
            client.connect(self.metrics)
            client.sendall(request)
            answer = b""
            while part := client.recv(65536):
                answer += part
        head, _, body = answer.decode().partition("\r\n\r\n")
        return head, body

    def scrape(self):
        head, body = self.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
        self.assertRegex(head, r"^HTTP/1\.1 200 OK\r\n")
        self.assertIn("Content-Type: text/plain; version=0.0.4", head)
        self.assertIn(f"Content-Length: {len(body)}", head)
        return exposition.parse(body)

    def test_metrics_are_what_a_scraper_accepts_and_move(self):
        self.begin_cold()
        mounted = self.world.mount("env", "mnt", "tree")
        self.assertTrue(harness.wait_until(lambda: os.path.exists(self.metrics)))
        before = self.scrape()
        self.read(os.path.join(mounted, "dir", "large"))
        after = self.scrape()
        count = lambda families: families["dsec_lazyfs_request_seconds"].samples[
            ("dsec_lazyfs_request_seconds_count", (("operation", "read"),))]
        self.assertGreater(count(after), count(before))
        self.assertGreater(exposition.value(after, "dsec_lazyfs_store_bytes_total", urgency="demand"), 2 << 20)
        stats = self.fs("stats")
        self.assertEqual(exposition.value(after, "dsec_lazyfs_chunks_total", origin="store"),
                         stats["chunks"]["store"]["chunks"])

    def test_other_requests_are_refused_and_silent_clients_hinder_nobody(self):
        self.world.mount("env", "mnt", "tree")
        self.assertTrue(harness.wait_until(lambda: os.path.exists(self.metrics)))
        for request, status in ((b"GET / HTTP/1.1\r\n\r\n", "404"), (b"POST /metrics HTTP/1.1\r\n\r\n", "405"),
                                (b"nonsense\r\n\r\n", "400"), (b"GET /" + b"x" * 10000, "431")):
            self.assertRegex(self.ask(request)[0], rf"^HTTP/1\.1 {status} ")
        silent = []
        for _ in range(10):
            silent.append(socket.socket(socket.AF_UNIX))
            silent[-1].connect(self.metrics)
            silent[-1].sendall(b"GET /met")
        self.scrape()
        for one in silent:
            one.close()

    def test_an_upgrade_interrupts_neither_traces_nor_metrics(self):
        small = os.path.join(self.world.mount("env", "mnt", "tree"), "dir", "small")
        trace = self.start_trace("--json")
        self.assertTrue(harness.wait_until(lambda: self.fs("stats")["tracing"]))
        pid = self.world.daemon_pid()
        self.world.dsec("fs", "upgrade")
        self.assertNotEqual(self.world.daemon_pid(), pid)
        self.assertTrue(harness.wait_until(lambda: self.fs("stats")["tracing"]))
        self.read(small)
        time.sleep(0.3)
        self.assertIn("/dir/small", self.end_trace(trace))
        self.assertGreaterEqual(exposition.value(self.scrape(), "dsec_lazyfs_environments"), 1)

    def test_every_metric_and_every_figure_is_in_the_document(self):
        self.world.mount("env", "mnt", "tree")
        self.assertTrue(harness.wait_until(lambda: os.path.exists(self.metrics)))
        with open(DOCUMENT, encoding="utf-8") as file:
            text = file.read()
        documented = set(re.findall(r"^\| `(dsec_lazyfs_[a-z_]+)", text, re.MULTILINE))
        self.assertEqual(documented, set(self.scrape()))
        for key in self.fs("stats"):
            self.assertIn(f"| `{key}", text)

    def test_thousands_of_owners_fit_the_answers(self):
        self.begin_cold()
        mounted = self.world.mount("env")
        self.addCleanup(self.world.stop_daemon)  # with all of them
        env = self.fs("status")["attached"][0]["env"]
        names = [f"test:{i:05}{'x' * 90}" for i in range(12000)]  # more than a message has room for
        with socket.socket(socket.AF_UNIX) as connection:
            directory = next(where for where, _, files in os.walk(self.world.path("run", "lazyfs")) if "control" in files)
            connection.connect(os.path.join(directory, "control"))
            answers = connection.makefile("rb")
            for name in names:
                request = {"op": "attach", "env": env, "view": "plain", "owner": name, "leased": False}
                connection.sendall(json.dumps(request).encode() + b"\n")
                self.assertIn("path", json.loads(answers.readline()))
        status = self.fs("status")
        self.assertEqual(status["attached_left_out"], 0)
        one = status["attached"][0]
        self.assertEqual(len(one["owners"]) + one["owners_left_out"], len(names) + 1)
        self.assertGreater(one["owners_left_out"], 0)
        self.assertIn(f"{len(names) + 1}", self.world.dsec("fs", "status"))
        stats = self.fs("stats")["envs"][0]
        self.assertEqual(stats["owner_count"], len(names) + 1)
        self.assertLess(len(stats["owners"]), len(names))
        done = self.world.try_dsec("fs", "stop")
        self.assertEqual((done.returncode, "more; end them first" in done.stderr), (125, True), done.stderr[-200:])
        self.assertTrue(os.listdir(mounted))


if __name__ == "__main__":
    harness.main()
