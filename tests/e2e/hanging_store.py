# SPDX-License-Identifier: Apache-2.0
"""A directory on a file system that can be made to hang: sshfs, whose sftp-server is stopped. Requests that it has are
then neither answered nor given up, and who waits for one cannot be killed, as with a network file system whose server
is gone. Needs root and sshfs; no network."""
import atexit
import os
import signal
import socket
import subprocess
import sys
import unittest

import harness
import link

SFTP_SERVERS = ("/usr/lib/openssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server")
# Nothing is known without asking.
OPTIONS = "ro,dir_cache=no,attr_timeout=0,entry_timeout=0,negative_timeout=0"


def sftp_server():
    harness.need("sshfs")
    for path in SFTP_SERVERS:
        if os.access(path, os.X_OK):
            return path
    raise unittest.SkipTest("needs OpenSSH's sftp-server")


class HangingDirectory:
    """Shows `source` at `place`, read-only."""

    def __init__(self, source, place):
        self.place, self.stopped = place, []
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.server = subprocess.Popen([sys.executable, link.__file__, "127.0.0.1", str(port), sftp_server(), "-R"],
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True)
        atexit.register(self.close)
        if self.server.stdout.readline() != b"ready\n":
            raise RuntimeError("the sftp server does not start")
        subprocess.run(["sshfs", f"127.0.0.1:{source}", place, "-o", f"directport={port},{OPTIONS}"], check=True,
                       timeout=30)

    def hang(self):
        with open(f"/proc/{self.server.pid}/task/{self.server.pid}/children", encoding="ascii") as file:
            self.stopped = [int(pid) for pid in file.read().split()]
        for pid in self.stopped:
            os.kill(pid, signal.SIGSTOP)

    def go_on(self):
        for pid in self.stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.stopped = []

    def close(self):
        atexit.unregister(self.close)
        self.go_on()
        subprocess.run(["umount", "-l", self.place], check=False, capture_output=True)
        try:
            os.killpg(self.server.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.server.wait()
        self.server.stdout.close()
