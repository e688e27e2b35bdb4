#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Mistakes of people: what is said, with which exit code, and that nothing was done."""
import glob
import os

import harness
from harness import WorldTest, wait_until

USAGE = 2


class Usage(WorldTest):
    """Nothing here gets as far as a store: there is none."""

    def assert_usage_error(self, command, *words):
        with self.subTest(command=command):
            done = self.world.try_dsec(*command, timeout=20)
            self.assertEqual(done.returncode, USAGE, done.stderr)
            self.assertEqual(done.stdout, "")
            for word in words:
                self.assertIn(word, done.stderr)
            self.assertFalse(os.path.exists(self.world.path("run")))

    def test_unknown_verbs_are_named_with_the_nearest(self):
        for command, said in (
                ("mont a /b", 'dsec: unknown verb "mont"; did you mean "mount"?'),
                ("evn ls", 'dsec: unknown verb "evn"; did you mean "env"?'),
                ("rnu small ls", 'dsec: unknown verb "rnu"; did you mean "run"?'),
                ("fs sats", 'dsec fs: unknown verb "sats"; did you mean "stats"?'),
                ("env inspct x", 'dsec env: unknown verb "inspct"; did you mean "inspect"?'),
                ("store chekc", 'dsec store: unknown verb "chekc"; did you mean "check"?')):
            self.assert_usage_error(command.split(), said)

    def test_an_unknown_verb_that_is_like_none_gets_the_list(self):
        self.assert_usage_error(["xyzzy\x1b"], 'unknown verb "xyzzy\\x1b"', "compose, env, layer")
        self.assert_usage_error(["fs", "xyzzy"], "status, stats")

    def test_no_verb_is_a_usage_error_too(self):
        self.assert_usage_error([], "--help")
        self.assert_usage_error(["fs"], "--help")

    def test_what_comes_after_the_verb_is_no_verb(self):
        done = self.world.try_dsec("run", "fs", "sats")
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertNotIn("unknown verb", done.stderr)

    def test_wrong_values_of_options_of_run(self):
        for option, value, word in (
                ("--memory", "5Q", "is no size"), ("-m", "", "is no size"), ("--memory", "1", "at least 6.0 MiB"),
                ("--memory", "-1", "is no size"), ("--shm-size", "5Q", "is no size"), ("--shm-size", "0", "at least one byte"),
                ("--timeout", "5y", "is no duration"), ("--timeout", "0", "no time"), ("--timeout", "-5", "is no duration"),
                ("--pids", "-1", "1 to 4194304"), ("--pids", "0", "1 to 4194304"), ("--pids", "4194305", "1 to 4194304"),
                ("--pids", "many", "1 to 4194304"), ("--cpus", "nan", "0.01 to 4096"), ("--cpus", "0", "0.01 to 4096"),
                ("--cpus", "2x", "0.01 to 4096"), ("--env", "=x", "has no name"), ("--volume", "/src", "SOURCE:/TARGET"),
                ("--volume", "/src:relative", "SOURCE:/TARGET"), ("--network", "bridge", "none"),
                ("--rootfs-mode", "fast", "auto")):
            self.assert_usage_error(["run", option, value, "small", "true"], word)

    def test_wrong_values_of_other_options(self):
        for command, word in (
                (["fs", "top", "-n", "0"], "1 to "), (["fs", "top", "-n", "-1"], "1 to "), (["fs", "top", "-n", "x"], "1 to "),
                (["fs", "evict", "--bytes", "5Q"], "is no size"), (["fs", "evict", "--bytes", "0"], "at least one byte"),
                (["fs", "evict", "--all", "--bytes", "5M"], "exclude"), (["fs", "evict", "small", "--bytes", "5M"], "exclude"),
                (["compose", "--from", "dir:/", "--name", "x", "-j", "0"], "1 to 256"),
                (["compose", "--from", "dir:/", "--name", "x", "-j", "1x"], "1 to 256")):
            self.assert_usage_error(command, word)


class Settings(WorldTest):
    """A lazyfsd that does not start: who waits for it is told why."""

    @classmethod
    def prepare(cls):
        directory = cls.world.make_dir("source")
        with open(os.path.join(directory, "file"), "w", encoding="ascii") as file:
            file.write("text\n")
        cls.world.compose(f"dir:{directory}", "small")

    def configure(self, text):
        with open(self.world.path("lazyfsd.toml"), "w", encoding="utf-8") as file:
            file.write(text)

    def start_and_stop(self):
        self.world.mount("small")
        self.world.umount()
        self.world.stop_daemon()

    def assert_not_started(self, reason):
        for command in (["mount", "small", self.world.make_dir("mnt")], ["run", "small", "/file"]):
            done = self.world.try_dsec(*command)
            self.assertEqual(done.returncode, 125, done.stderr)
            self.assertIn(f"lazyfsd did not start: {reason}", done.stderr)
            self.assertIn("; its log is ", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_a_wrong_value_is_shown_with_its_place(self):
        self.configure('# mine\nnode_cache = "yes"\n')
        self.assert_not_started(f'{self.world.path("lazyfsd.toml")}:2: "node_cache": "yes" is none of "auto", "on", "off"')

    def test_an_unknown_key_and_a_relative_path_likewise(self):
        self.configure('cach_dir = "/x"\n')
        self.assert_not_started(f'{self.world.path("lazyfsd.toml")}:1: unknown key "cach_dir"; did you mean "cache_dir"?')
        self.configure('cache_dir = "relative"\n')
        self.assert_not_started(f'{self.world.path("lazyfsd.toml")}:1: "cache_dir": "relative" is no absolute path')

    def test_what_the_log_has_is_of_another_day(self):
        self.configure('node_cache = "yes"\n')
        self.assert_not_started(self.world.path("lazyfsd.toml"))
        self.configure("")
        self.start_and_stop()
        self.configure("threads = 0\n")
        self.assert_not_started(f'{self.world.path("lazyfsd.toml")}:1: "threads": "0" is no number from 1 to 64')

    def test_what_fails_later_is_shown_from_the_log_in_either_format(self):
        self.configure("")
        self.start_and_stop()
        (directory,) = glob.glob(self.world.path("run", "lazyfs", "*", "slots"))
        os.remove(directory)
        os.mkdir(directory)
        self.addCleanup(os.rmdir, directory)
        for form in ("text", "json"):
            self.configure(f'log_format = "{form}"\n')
            done = self.world.try_dsec("mount", "small", self.world.make_dir("mnt"))
            self.assertEqual(done.returncode, 125, done.stderr)
            self.assertRegex(done.stderr, "^dsec: lazyfsd does not run: lazyfsd did not start: [^{}]*slots: Is a directory; its log is ")

    def test_a_node_cache_that_cannot_be_used_is_warned_of(self):
        self.configure('cache_dir = "/proc/nowhere"\nnode_cache = "on"\n')
        self.world.mount("small")
        for verb in ("status", "stats"):
            self.assertRegex(self.world.dsec("fs", verb), "(?m)^WARNING: the node cache is off: .*/proc/nowhere")
        self.world.umount()
        self.world.stop_daemon()

    def test_a_clean_stop_leaves_no_socket_of_metrics(self):
        listened = self.world.path("metrics")
        self.configure(f'metrics_listen = "unix:{listened}"\n')
        self.world.mount("small")
        self.assertTrue(wait_until(lambda: os.path.exists(listened)))
        self.world.dsec("fs", "upgrade")
        self.assertTrue(wait_until(lambda: os.path.exists(listened)))
        self.world.umount()
        self.world.stop_daemon()
        self.assertFalse(os.path.exists(listened))


if __name__ == "__main__":
    harness.main()
