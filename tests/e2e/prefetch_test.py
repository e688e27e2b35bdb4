#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a run reads is recorded once and fetched ahead on the next node, in bounded steps, and never in anybody's way."""
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import time

import harness
from harness import BIN, WorldTest, need, wait_until

SEED = int(os.environ.get("DSEC_PREFETCH_SEED", "20240611"))
FILES, FILE_BYTES = 24, 300_000  # most are several chunks
BLOCK = 16 << 10  # the node cache's


def read_terminal(fd):
    try:
        return os.read(fd, 4096)
    except OSError:  # EIO: the other side closed it
        return b""


class Prefetch(WorldTest):
    @classmethod
    def prepare(cls):
        need("crun", "umoci")
        print(f"seed {SEED} (DSEC_PREFETCH_SEED)", flush=True)
        chance = random.Random(SEED)
        data = cls.world.make_dir("data")
        for i in range(FILES):
            with open(os.path.join(data, f"f{i:02}"), "wb") as file:
                file.write(chance.randbytes(FILE_BYTES))
        made = cls.world.manifest(f'version = 1\nname = "env"\n'
                                  f'[[layer]]\nname = "base"\nfrom = "oci:{harness.small_image()}:v3"\n'
                                  f'[[layer]]\nname = "data"\nfrom = "dir:{data}"\ntarget = "/data"\n')
        cls.env = made["env"]
        cls.trace = os.path.join(cls.world.store, "traces", cls.env)

    def setUp(self):
        self.fresh()

    def tearDown(self):
        if os.path.ismount(self.world.path("mnt")):
            self.world.umount()
        if os.path.exists(self.trace):
            os.unlink(self.trace)

    def fresh(self, **settings):
        """Another node: nothing of the environment is here."""
        if self.world.daemon_pid() is not None:
            self.world.stop_daemon()
        wait_until(lambda: not os.path.isdir(self.world.path("state")) or shutil.rmtree(self.world.path("state")), 5)
        self.configure(**settings)

    def configure(self, **settings):
        """For the next lazyfsd."""
        if self.world.daemon_pid() is not None:
            self.world.stop_daemon()
        settings = {"node_cache": "on", **settings}
        with open(self.world.path("lazyfsd.toml"), "w", encoding="ascii") as file:
            file.writelines(f'{key} = "{value}"\n' for key, value in settings.items())
        harness.drop_caches()

    def run_in(self, script, *options, status=0):
        record = self.world.path("record.json")
        done = self.world.try_dsec("run", "--json-file", record, *options, "env", "sh", "-c", script)
        self.assertEqual(done.returncode, status, done.stderr)
        with open(record, encoding="utf-8") as file:
            return json.load(file)

    def read_files(self, *numbers):
        return "cat " + " ".join(f"/data/f{i:02}" for i in numbers) + " >/dev/null"

    def status(self):
        return json.loads(self.world.dsec("fs", "status", "--json"))

    def from_store(self):
        return self.status()["chunks"]["node_cache"]["store_bytes"]

    def chunks_of_trace(self):
        with open(self.trace, "rb") as file:
            body = file.read()[16:-32]
        return [body[at:at + 32] for at in range(0, len(body), 32)]

    def prefetch(self, *args):
        return json.loads(self.world.dsec("prefetch", "env", "--json", *args))

    def log_lines(self, what):
        return [line for line in self.world.daemon_log().splitlines() if what in line]

    def test_what_a_run_read_is_there_before_the_next_node_wants_it(self):
        script = self.read_files(3, 1, 4)
        first = self.run_in(script, "--record")
        self.assertTrue(first["recorded"])
        self.assertEqual(len(self.chunks_of_trace()), first["trace"]["chunks"])
        self.assertGreater(first["trace"]["stored_bytes"], 3 * FILE_BYTES)
        self.fresh()
        self.world.mount("env")  # begins to fetch
        self.prefetch()
        # Its demand, of what is not cached: nothing, in either way of showing the tree.
        for mode in ("tree", "auto"):
            self.assertEqual(self.run_in(script, "--rootfs-mode", mode)["bytes_fetched"], 0, mode)
        fetched = self.from_store()
        self.assertGreater(fetched, 3 * FILE_BYTES)
        self.assertLess(fetched, 1.2 * first["trace"]["stored_bytes"] + 40 * BLOCK)
        self.assertEqual(self.prefetch()["bytes_fetched"], 0)

    def test_a_recording_is_exact_whatever_is_cached(self):
        script = self.read_files(2, 5)
        self.run_in(self.read_files(2, 5, 6))  # warms everything
        first = self.run_in(script, "--record")
        once = self.chunks_of_trace()
        second = self.run_in(script, "--record")
        self.assertEqual(first["trace"]["chunks"], second["trace"]["chunks"])
        self.assertEqual(sorted(once), sorted(self.chunks_of_trace()))
        self.assertFalse([entry for entry in self.status()["attached"] if "record" in entry["path"]])

    def test_only_the_first_run_is_recorded_by_itself_and_only_when_it_succeeds(self):
        failed = self.run_in("cat /data/f07 >/dev/null; exit 3", status=3)
        self.assertNotIn("recorded", failed)
        self.assertFalse(os.path.exists(self.trace))
        self.fresh()
        self.assertTrue(self.run_in(self.read_files(7))["recorded"])
        once = self.chunks_of_trace()
        self.assertNotIn("recorded", self.run_in(self.read_files(8)) | self.run_in(self.read_files(9)))
        self.fresh()
        self.assertFalse(self.run_in(self.read_files(10)).get("recorded", False))  # the store has it, from another node
        self.assertEqual(self.chunks_of_trace(), once)
        os.unlink(self.trace)
        self.fresh(record="off")
        self.assertNotIn("recorded", self.run_in(self.read_files(7)))

    def test_a_store_that_takes_no_trace_fails_no_run(self):
        shown = self.world.make_dir("read-only")
        subprocess.run(["mount", "--bind", self.world.store, shown], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", shown], check=True)
        subprocess.run(["mount", "-o", "remount,bind,ro", shown], check=True)
        before = self.world.env["DSEC_STORE"]
        self.world.env["DSEC_STORE"] = shown
        try:
            for _ in range(2):
                self.assertFalse(self.run_in(self.read_files(1)).get("recorded", False))
            self.assertEqual(len(self.log_lines("trace_not_stored")), 1)
            self.world.stop_daemon()
        finally:
            self.world.env["DSEC_STORE"] = before

    def test_a_trace_that_is_damaged_or_of_something_else_is_ignored_with_one_line(self):
        self.run_in(self.read_files(1), "--record")
        with open(self.trace, "rb") as file:
            good = file.read()
        strange = harness.hashlib.sha256(b"of no layer").digest()
        foreign = good[:8] + (1).to_bytes(4, "little") + bytes(4) + strange
        foreign += harness.hashlib.sha256(foreign).digest()
        for bad in (good[:-1] + bytes([good[-1] ^ 1]), foreign):
            self.fresh(record="off")
            with open(self.trace, "wb") as file:
                file.write(bad)
            before = len(self.log_lines("trace_ignored"))
            for _ in range(2):
                self.run_in(self.read_files(2))
            self.assertTrue(wait_until(lambda: len(self.log_lines("trace_ignored")) == before + 1))
            self.assertEqual(self.status()["prefetch"]["bytes_fetched"], 0)

    def test_all_of_an_environment_is_fetched_once(self):
        done = self.prefetch("--all")
        stored = self.world.stored_bytes()
        self.assertGreater(done["bytes_fetched"], FILES * FILE_BYTES)
        self.assertLessEqual(self.from_store(), stored + 8 * BLOCK)
        self.assertEqual(self.prefetch("--all")["bytes_fetched"], 0)
        self.assertEqual(self.run_in(self.read_files(*range(FILES)))["bytes_fetched"], 0)

    def test_eager_means_before_the_command_and_before_the_mount_is_there(self):
        run = self.run_in(self.read_files(11), "--eager")
        self.assertEqual(run["bytes_fetched"], 0)
        self.assertGreater(run["durations_ms"]["prefetch"], 0)
        self.fresh()
        mounted = self.world.make_dir("mnt")
        self.world.dsec("mount", "--eager", "env", mounted)
        fetched = self.from_store()
        for name in os.listdir(os.path.join(mounted, "data")):
            with open(os.path.join(mounted, "data", name), "rb") as file:
                self.assertEqual(len(file.read()), FILE_BYTES)
        self.assertEqual(self.from_store(), fetched)

    def test_an_interrupted_prefetch_ends_on_both_sides(self):
        self.fresh(prefetch_bandwidth="64K")
        job = subprocess.Popen([os.path.join(BIN, "dsec"), "prefetch", "--all", "env"], env=self.world.env)
        self.addCleanup(job.wait)
        self.addCleanup(job.kill)
        self.assertTrue(wait_until(lambda: self.world.daemon_pid() is not None and self.status()["prefetch"]["running"]))
        job.send_signal(signal.SIGINT)
        self.assertEqual(job.wait(10), -signal.SIGINT)
        self.assertTrue(wait_until(lambda: not self.status()["prefetch"]["running"], 60))
        self.assertFalse([entry for entry in self.status()["attached"] if entry["owners"]])
        self.assertLess(self.from_store(), self.world.stored_bytes())

    def test_a_job_that_nobody_needs_any_more_stops(self):
        self.run_in(self.read_files(*range(FILES)), "--record")
        self.fresh(prefetch_bandwidth="256K")
        self.world.mount("env")
        self.assertTrue(wait_until(lambda: self.status()["prefetch"]["running"] == 1))
        self.world.umount()
        self.assertTrue(wait_until(lambda: not self.status()["prefetch"]["running"], 60))
        self.assertLess(self.from_store(), FILES * FILE_BYTES)

    def test_bandwidth_has_a_bound(self):
        self.fresh(prefetch_bandwidth="4M", prefetch_threads=1)
        began = time.monotonic()
        done = self.prefetch("--all")
        # A tenth of a second's worth and the last read are let through at once.
        bound = (done["bytes_fetched"] - (4 << 20) / 10 - (512 << 10)) / (4 << 20)
        self.assertGreaterEqual(time.monotonic() - began, bound)
        self.assertGreater(bound, 0.5)

    def test_a_prefetch_goes_on_through_a_restart(self):
        self.fresh(prefetch_bandwidth="4M")
        job = subprocess.Popen([os.path.join(BIN, "dsec"), "prefetch", "--all", "--json", "env"], env=self.world.env,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.assertTrue(wait_until(lambda: self.world.daemon_pid() is not None and self.status()["prefetch"]["running"]))
        self.world.dsec("fs", "upgrade")
        output, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0)
        self.assertEqual(json.loads(output)["state"], "done")
        self.assertEqual(self.prefetch("--all")["bytes_fetched"], 0)

    def test_half_a_recording_is_none(self):
        record = self.world.path("half.json")
        script = self.read_files(1) + "; sleep 1; " + self.read_files(2)
        run = subprocess.Popen([os.path.join(BIN, "dsec"), "run", "--record", "--json-file", record, "env", "sh", "-c", script],
                               env=self.world.env, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.assertTrue(wait_until(lambda: self.world.daemon_pid() is not None and self.status()["prefetch"]["recording"]))
        busy = self.world.try_dsec("run", "--record", "env", "true")
        self.assertIn("is being recorded", busy.stderr)
        os.kill(self.world.daemon_pid(), signal.SIGKILL)
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 0, errors)
        self.assertIn("started again", errors)
        self.assertFalse(os.path.exists(self.trace))
        self.assertFalse([entry for entry in self.status()["attached"] if "record" in entry["path"]])
        self.assertTrue(self.run_in(script, "--record")["recorded"])

    def show_bar(self):
        """What is drawn on a terminal while all is fetched."""
        ours, theirs = pty.openpty()
        job = subprocess.Popen([os.path.join(BIN, "dsec"), "prefetch", "--all", "env"], env=self.world.env, stderr=theirs,
                               stdout=subprocess.DEVNULL)
        os.close(theirs)
        shown = b""
        while (part := read_terminal(ours)):
            shown += part
        os.close(ours)
        self.assertEqual(job.wait(60), 0)
        return shown.decode()

    def test_there_is_a_bar_on_a_terminal_and_nothing_off_it(self):
        self.fresh(prefetch_bandwidth="8M")
        self.assertRegex(self.show_bar(), r"\[#+\.*\] +\d+%  [\d.]+ \S+ of [\d.]+ \S+  [\d.]+ \S+/s  \d+ s left")
        self.fresh()
        silent = self.world.try_dsec("prefetch", "--all", "env")
        self.assertEqual((silent.returncode, silent.stderr), (0, ""))

    def test_off_a_terminal_there_is_a_line_now_and_then(self):
        self.fresh(prefetch_bandwidth="384K")
        job = subprocess.Popen([os.path.join(BIN, "dsec"), "prefetch", "--all", "env"], env=self.world.env, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(job.wait)
        self.addCleanup(job.stderr.close)
        self.addCleanup(job.kill)
        self.assertRegex(job.stderr.readline(), r"^dsec: fetched ahead: [\d.]+ \S+ of [\d.]+ \S+, [\d.]+ \S+/s, \d+ s left\n$")

    def test_the_speed_is_that_of_the_store_whatever_was_there_already(self):
        self.fresh()
        self.run_in(self.read_files(*range(FILES - 4)))
        self.configure(prefetch_bandwidth="512K", prefetch_threads=1)
        shown = self.show_bar()
        rates = [float(number) * {"B": 1 / 1024, "KiB": 1, "MiB": 1024}[unit] for number, unit in re.findall(r"([\d.]+) (\S+)/s", shown)]
        self.assertTrue(rates, shown)
        # What is let through at once, in the first fifth of a second.
        self.assertLess(max(rates), 6 << 10, shown)

    def test_what_was_done_is_said_in_words_that_are_true(self):
        self.fresh()
        said = self.world.dsec("prefetch", "--all", "env")
        found = re.fullmatch(r"([\d.]+) MiB are on this node; ([\d.]+) MiB were read from the store in [\d.]+ s\n", said)
        self.assertTrue(found, said)
        self.assertAlmostEqual(float(found.group(1)), float(found.group(2)), delta=1)
        status = self.world.dsec("fs", "status")
        self.assertIn(f"{found.group(2)} MiB from the store, {found.group(2)} MiB of it ahead of need", status)
        self.assertIn(f"({found.group(2)} MiB from the store", self.world.dsec("fs", "stats"))
        again = self.world.dsec("prefetch", "--all", "env")
        self.assertEqual(again, f"{found.group(1)} MiB are on this node; nothing had to be read from the store\n")

    def test_who_cannot_be_served_is_told_what_to_do(self):
        done = self.world.try_dsec("prefetch", "env")
        self.assertEqual(done.returncode, 125)
        self.assertIn("dsec run --record", done.stderr)
        self.fresh(node_cache="auto")
        self.assertIn("nothing to fetch", self.world.dsec("prefetch", "--all", "env"))
        refused = self.world.try_dsec("run", "--record", "--rootfs-mode", "objects", "env", "true")
        self.assertEqual(refused.returncode, 125)
        self.assertIn("tree mode only", refused.stderr)
        self.assertTrue(self.run_in(self.read_files(1))["recorded"])  # for other nodes


if __name__ == "__main__":
    harness.main()
