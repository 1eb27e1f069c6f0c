# SPDX-License-Identifier: BSD-3-Clause
"""Checked traffic between a guest and the far end; see guest/echo.c and guest/stream.c."""
import re

from .network import ECHO_PORT, FAR4, FAR6, STREAM_PORT
from .process import Failed, wait_for

# Without the UDP and IP headers; 18 bytes make the shortest frame of Ethernet.
MIN_PAYLOAD, HEADERS4, HEADERS6 = 18, 28, 48


def figures(text):
    """'answered 5 bad 0' as a dict."""
    return {name: int(n) for name, n in re.findall(r"([a-z-]+) (\d+)", text)}


def judge(what, text, lossless=True):
    """Nothing may be wrong; lost may be nothing, or what a full ring costs a burst."""
    got = figures(text.splitlines()[-1] if text else "")
    if "answered" not in got or got["bad"]:
        raise Failed(f"{what}: {text}")
    if got["resent"] > (0 if lossless else got["answered"] // 20):
        raise Failed(f"{what}: lost too much: {text}")
    return got


class Guest:
    """The network of a guest, seen from its shell: addresses, commands, the peers' servers."""

    def __init__(self, rig, vm, mtu=1500, number=2):
        self.vm, self.far, self.folder, self.vqpeer = vm, rig.far, rig.folder, rig.place.vqpeer
        self.mtu = mtu
        self.address4, self.address6 = f"10.9.0.{number}", f"fd09::{number}"

    def configure(self, dev="eth0"):
        run = self.vm.console.run
        wait_for(f"{dev} in the guest",
                 lambda: self.vm.console.attempt(f"test -e /sys/class/net/{dev}")[0] == 0, 30)
        run(f"ip link set {dev} mtu {self.mtu} up && ip addr add {self.address4}/24 dev {dev} &&"
            f" ip -6 addr add {self.address6}/64 dev {dev}")

    def serve(self):
        """Answer what the far end asks."""
        self.vm.console.run(f"(vqpeer echo-serve {ECHO_PORT} >/tmp/echo.log 2>&1 &)"
                            f" && (vqpeer stream-serve {STREAM_PORT} >/tmp/stream.log 2>&1 &)")

    def wait_path(self, timeout=60, address=FAR4):
        """Until one packet came back: the link may still come up."""
        def answered():
            return self.vm.console.attempt(f"ping -c 1 -W 1 {address}")[0] == 0
        wait_for(f"{self.vm.name}: an answer from {address}", answered, timeout, 0.1)

    def largest(self, headers):
        return self.mtu - headers

    def echo(self, count, window, *, lossless=True, address=FAR4, headers=HEADERS4, timeout=120):
        _, text = self.vm.console.attempt(
            f"vqpeer echo {address} {ECHO_PORT} {MIN_PAYLOAD} {self.largest(headers)}"
            f" {count} {window}", timeout)
        return judge(f"echo from {self.vm.name} to {address}", text, lossless)

    def start_load(self):
        """Datagrams to the far end until stop_load()."""
        self.vm.console.run(f"vqpeer echo {FAR4} {ECHO_PORT} {MIN_PAYLOAD}"
                            f" {self.largest(HEADERS4)} 0 8 >/tmp/load.log 2>&1 &\n"
                            "echo $! >/tmp/load.pid")

    def stop_load(self):
        """How it went; whatever came must have been right."""
        text = self.vm.console.run("kill $(cat /tmp/load.pid); wait; cat /tmp/load.log", 90)
        got = figures(text)
        if got.get("bad", 1):
            raise Failed(f"load from {self.vm.name}: {text}")
        return got

    def echo_from_far(self, count, window, name="echo"):
        argv = [self.vqpeer, "echo", self.address4, ECHO_PORT, MIN_PAYLOAD,
                self.largest(HEADERS4), count, window]
        return self.far.process(argv, self.folder / f"{name}-to-{self.vm.name}.log")

    def stream(self, flows, kib, address=FAR4, timeout=180):
        code, text = self.vm.console.attempt(
            f"vqpeer stream {address} {STREAM_PORT} {flows} {kib}", timeout)
        if code:
            raise Failed(f"streams from {self.vm.name} to {address}: {text}")
        return figures(text)

    def check(self, scale=1):
        """Every length there and back one by one, then in bursts that both sides begin, then
        TCP both ways.  One by one nothing may be lost: a wake-up that is missed shows here."""
        self.echo(150 * scale, 1)
        self.echo(50 * scale, 1, address=FAR6, headers=HEADERS6)
        with self.echo_from_far(600 * scale, 16) as other:
            self.echo(600 * scale, 16, lossless=False)
            judge(f"echo from the far end to {self.vm.name}", other.finish(), lossless=False)
        self.stream(2, 2048 * scale)
        self.stream(2, 2048 * scale, address=FAR6)


def serve(far, folder, vqpeer):
    """The far end's servers; they end with their with blocks."""
    return (far.process([vqpeer, "echo-serve", ECHO_PORT], folder / "far-echo.log"),
            far.process([vqpeer, "stream-serve", STREAM_PORT], folder / "far-stream.log"))
