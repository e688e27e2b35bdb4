# SPDX-License-Identifier: Apache-2.0
"""Two network namespaces joined by a bad link.

The link is two TUN devices and a process that carries packets between them, so that it needs nothing of the kernel's
traffic control (netem is not in every kernel): a rate, a delay, packets lost by a seeded chance, and a switch. All
connections share the rate, as their packets wait in one queue for each direction. Needs root, iproute2 and /dev/net/tun.
"""
import atexit
import collections
import fcntl
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time
import unittest

import harness

TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
MTU = 1500
BUFFER_SECONDS = 0.1  # what waits longer than that for its turn is dropped


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


class Direction:
    """Packets on their way from one device to the other."""

    def __init__(self, source, target, options, chance):
        self.source, self.target, self.options, self.chance = source, target, options, chance
        self.free_at = 0.0
        self.flying = collections.deque()  # (when it arrives, packet)

    def take(self, now, is_up):
        while True:
            try:
                packet = os.read(self.source, MTU + 100)
            except BlockingIOError:
                return
            start = max(now, self.free_at)
            if not is_up or start - now > BUFFER_SECONDS or self.chance.random() < self.options["loss"]:
                continue
            self.free_at = start + len(packet) * 8 / self.options["rate_bits"]
            self.flying.append((self.free_at + self.options["delay"], packet))

    def give(self, now):
        while self.flying and self.flying[0][0] <= now:
            try:
                os.write(self.target, self.flying.popleft()[1])
            except OSError:
                pass  # the device is down

    def next_at(self):
        return self.flying[0][0] if self.flying else None


def carry(left, right, control, options):
    """The carrying process: until the other end of `control` is closed."""
    chance = random.Random(options["seed"])
    ways = [Direction(left, right, options, chance), Direction(right, left, options, chance)]
    is_up = True
    while True:
        times = [at for at in (way.next_at() for way in ways) if at is not None]
        wait = max(0.0, min(times) - time.monotonic()) if times else None
        ready, _, _ = select.select([left, right, control], [], [], wait)
        now = time.monotonic()
        if control in ready:
            word = control.recv(1)
            if not word:
                return
            is_up = word == b"u"
            control.send(word)
        for way in ways:
            if way.source in ready:
                way.take(now, is_up)
            way.give(time.monotonic())


class Link:
    """near (10.77.0.1) and far (10.77.0.2) are names of network namespaces. close() removes all of it."""
    NEAR_ADDRESS, FAR_ADDRESS = "10.77.0.1", "10.77.0.2"

    def __init__(self, round_trip=0.020, loss=0.01, rate_bits=200e6, seed=1):
        harness.need_root()
        harness.need("ip", "nsenter")
        if not os.path.exists("/dev/net/tun"):
            raise unittest.SkipTest("needs /dev/net/tun")
        self.near, self.far = f"dsec-near-{os.getpid()}", f"dsec-far-{os.getpid()}"
        self.carrier = self.control = None
        self.devices, self.servers = [], []
        atexit.register(self.close)
        try:
            self._make(self.near, f"dsecn{os.getpid()}", self.NEAR_ADDRESS)
            self._make(self.far, f"dsecf{os.getpid()}", self.FAR_ADDRESS)
        except (OSError, subprocess.CalledProcessError) as error:
            self.close()
            raise unittest.SkipTest(f"no network namespaces with TUN devices here: {error}") from error
        self._carry({"delay": round_trip / 2, "loss": loss, "rate_bits": rate_bits, "seed": seed})

    def _make(self, namespace, device, address):
        fd = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self.devices.append(fd)
        fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", device.encode(), IFF_TUN | IFF_NO_PI))
        run("ip", "netns", "add", namespace)
        run("ip", "link", "set", device, "netns", namespace)
        run("ip", "-n", namespace, "addr", "add", f"{address}/24", "dev", device)
        run("ip", "-n", namespace, "link", "set", device, "mtu", str(MTU), "up")
        run("ip", "-n", namespace, "link", "set", "lo", "up")
        # Connections outlive any outage, and where the kernel can be told so, try again every second during one.
        tries = "echo 100 >/proc/sys/net/ipv4/tcp_retries2; echo 1000 >/proc/sys/net/ipv4/tcp_rto_max_ms"
        subprocess.run(self.inside(namespace, "sh", "-c", tries), check=False, capture_output=True)

    def _carry(self, options):
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.carrier = os.fork()
        if self.carrier == 0:
            try:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                self.control.close()
                carry(*self.devices, theirs, options)
            finally:
                os._exit(0)
        theirs.close()

    @staticmethod
    def inside(namespace, *command):
        """A command line that runs in the namespace's network and in everything else where we are."""
        return ["nsenter", f"--net=/run/netns/{namespace}", *command]

    def serve_far(self, port, *command):
        """Runs the command for each connection to a port of the far side, with the connection as its standard input and
        output, until close()."""
        script = os.path.abspath(__file__)
        server = self.start_far(sys.executable, script, self.FAR_ADDRESS, str(port), *command, stdout=subprocess.PIPE)
        if server.stdout.readline() != b"ready\n":
            raise RuntimeError("the far server does not start")

    def start_far(self, *command, **options):
        """Starts a server of its own kind in the far side's network; close() kills it and what it started."""
        server = subprocess.Popen(self.inside(self.far, *command), stdin=subprocess.DEVNULL, start_new_session=True, **options)
        self.servers.append(server)
        return server

    def _switch(self, word):
        self.control.send(word)
        if self.control.recv(1) != word:
            raise RuntimeError("the link's carrier is gone")

    def cut(self):
        self._switch(b"d")

    def mend(self):
        self._switch(b"u")

    def close(self):
        atexit.unregister(self.close)
        for server in self.servers:
            try:
                os.killpg(server.pid, signal.SIGKILL)  # with the commands that it runs
            except ProcessLookupError:
                pass
            server.wait()
            if server.stdout is not None:
                server.stdout.close()
        self.servers = []
        if self.control is not None:
            self.control.close()
            os.waitpid(self.carrier, 0)
            self.control = None
        for fd in self.devices:
            os.close(fd)
        self.devices = []
        for namespace in (self.near, self.far):
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


def serve(address, port, *command):
    with socket.create_server((address, int(port))) as listener:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                subprocess.Popen(command, stdin=connection, stdout=connection)


if __name__ == "__main__":
    serve(*sys.argv[1:])
