#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a user expects of `dsec run`: statuses, streams, isolation and limits."""
import json
import os
import signal
import subprocess
import time

import harness
from harness import BIN, WorldTest, need

DOCKER_CAPABILITIES = 0xa80425fb


class Run(WorldTest):
    @classmethod
    def prepare(cls):
        need("crun", "umoci")
        cls.world.compose(f"oci:{harness.small_image()}:v2", "small")

    def run_in(self, *args, **options):
        return self.world.try_dsec("run", *args, **options)

    def shell(self, script, *flags):
        done = self.run_in(*flags, "small", "sh", "-c", script)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def record(self, *args):
        path = self.world.path("record.json")
        done = self.run_in("--json-file", path, *args)
        with open(path, encoding="utf-8") as file:
            return done, json.load(file)

    # --- statuses and streams ---

    def test_the_status_is_the_command_s_own(self):
        for status in (0, 1, 42, 124, 255):
            self.assertEqual(self.run_in("small", "sh", "-c", f"exit {status}").returncode, status)

    def test_statuses_of_what_cannot_run(self):
        self.assertEqual(self.run_in("small", "no-such-command").returncode, 127)
        self.assertEqual(self.run_in("small", "/etc/passwd").returncode, 126)
        self.assertEqual(self.run_in("small", "sh", "-c", "kill -9 $$").returncode, 137)
        self.assertEqual(self.run_in("no-such-env", "true").returncode, 125)
        self.assertEqual(self.run_in("--no-such-flag", "small", "true").returncode, 2)

    def test_a_sandbox_starts_where_the_root_was_changed(self):
        self.shell("true")  # the daemon and its mounts are there
        script = 'mount --make-rprivate / && mount --rbind / "$1" && exec chroot "$1" "$2" run small echo inside'
        done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", self.world.make_dir("root"),
                               os.path.join(BIN, "dsec")], env=self.world.env, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "inside\n"), done.stderr)

    def test_a_timeout_is_124_and_soon(self):
        start = time.monotonic()
        done, record = self.record("--timeout", "1s", "small", "sleep", "100")
        self.assertEqual(done.returncode, 124)
        self.assertLess(time.monotonic() - start, 20)
        self.assertTrue(record["timed_out"])
        self.assertFalse(record["infra"])

    def test_streams_are_passed_through_as_they_are(self):
        content = bytes(range(256)) * 2000
        done = self.run_in("small", "sh", "-c", "cat; echo err >&2", text=False, errors=None, stdin=None, input=content)
        self.assertEqual(done.stdout, content)
        self.assertEqual(done.stderr, b"err\n")

    def test_a_signal_reaches_the_command(self):
        with subprocess.Popen([os.path.join(BIN, "dsec"), "run", "small", "sh", "-c",
                               "trap 'echo got; exit 7' TERM; echo ready; while :; do sleep 0.1; done"], env=self.world.env,
                              stdout=subprocess.PIPE, text=True) as process:
            self.assertEqual(process.stdout.readline(), "ready\n")
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.stdout.read(), "got\n")
            self.assertEqual(process.wait(30), 7)

    def test_options_set_what_they_say(self):
        self.assertEqual(self.shell("pwd", "-w", "/var/lib"), "/var/lib")
        self.assertEqual(self.shell("pwd", "-w", "/made/now"), "/made/now")
        self.assertEqual(self.shell("hostname", "--hostname", "box"), "box")
        self.assertEqual(self.shell("echo $A-$B", "-e", "A=1", "-e", "B=x y"), "1-x y")
        self.assertEqual(self.shell("id -u; id -g", "-u", "1234:99"), "1234\n99")

    # --- isolation ---

    def test_what_is_written_is_gone_and_nobody_else_sees_it(self):
        script = "echo changed > /etc/passwd; rm -rf /bin/ls /srv; mkdir /new; ls -d /srv 2>/dev/null; cat /etc/passwd"
        self.assertEqual(self.shell(script), "changed")
        self.assertIn("root:", self.shell("cat /etc/passwd; ls -d /srv /bin/ls"))
        self.assertEqual(self.run_in("small", "ls", "/new").returncode, 1)
        self.world.dsec("store", "check")

    def test_it_has_its_own_processes_network_and_names(self):
        self.assertLessEqual(int(self.shell("ls -d /proc/[0-9]* | wc -l")), 5)
        self.assertEqual(self.shell("tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"), "lo")
        for kind in ("mnt", "pid", "net", "ipc", "uts", "cgroup"):
            self.assertNotEqual(self.shell(f"readlink /proc/self/ns/{kind}"), os.readlink(f"/proc/self/ns/{kind}"), kind)

    def test_capabilities_and_system_calls_are_docker_s(self):
        status = self.shell("cat /proc/self/status")
        values = dict(line.split(":\t", 1) for line in status.splitlines())
        self.assertEqual(int(values["CapEff"], 16), DOCKER_CAPABILITIES)
        self.assertEqual(int(values["CapBnd"], 16), DOCKER_CAPABILITIES)
        self.assertEqual(values["Seccomp"].strip(), "2")
        self.assertNotEqual(self.run_in("small", "mount", "-t", "tmpfs", "none", "/tmp").returncode, 0)
        self.assertNotEqual(self.run_in("small", "unshare", "-U", "true").returncode, 0)

    def test_the_host_cannot_be_reached_through_proc_sys_and_devices(self):
        self.assertNotEqual(self.run_in("small", "sh", "-c", "echo 1 > /proc/sys/vm/drop_caches").returncode, 0)
        self.assertNotEqual(self.run_in("small", "sh", "-c", "echo b > /proc/sysrq-trigger").returncode, 0)
        self.assertNotEqual(self.run_in("small", "sh", "-c", "mknod /d b 254 0 && head -c1 /d").returncode, 0)
        self.assertEqual(self.shell("echo x > /dev/null; head -c 3 /dev/zero | wc -c; ls /dev/fuse 2>/dev/null; true"), "3")

    def test_volumes(self):
        shared = self.world.make_dir("shared")
        with open(os.path.join(shared, "in"), "w", encoding="utf-8") as file:
            file.write("from the host")
        self.assertEqual(self.shell("cat /v/in; echo back > /v/out", "-v", f"{shared}:/v"), "from the host")
        with open(os.path.join(shared, "out"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "back\n")
        done = self.run_in("-v", f"{shared}:/v:ro", "small", "sh", "-c", "echo no > /v/out")
        self.assertNotEqual(done.returncode, 0)

    # --- limits ---

    def test_memory_is_limited(self):
        done, record = self.record("--memory", "32M", "small", "tail", "/dev/zero")
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertTrue(record["oom_killed"])
        self.assertFalse(record["infra"])

    def test_processes_are_limited(self):
        done = self.run_in("--pids", "20", "--timeout", "30s", "small", "sh", "-c", "for i in $(seq 50); do sleep 5 & done; wait")
        self.assertIn("fork", done.stderr)

    def test_kept_changes_can_be_seen_and_removed(self):
        done, record = self.record("--keep", "--name", "keeper", "small", "sh", "-c", "echo kept > /file")
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(os.path.join(record["upper"], "file"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "kept\n")
        self.world.dsec("rm", "keeper")
        self.assertFalse(os.path.exists(record["upper"]))


if __name__ == "__main__":
    harness.main()
