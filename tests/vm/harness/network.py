# SPDX-License-Identifier: BSD-3-Clause
"""Network namespaces: one in which the daemon runs, one that is the far end of the wire."""
import os
import re

from .process import Failed, Process, sh

FAR4, FAR6 = "10.9.0.1", "fd09::1"
FAR_MAC = "02:00:00:09:00:01"
PREFIX = "vqvm"
ECHO_PORT, STREAM_PORT, COUNT_PORT = 7001, 7002, 7003


def configure(run, dev, number, mtu):
    """Bring dev up with our addresses that end in number; run(command) runs it where dev is."""
    run(f"ip link set {dev} mtu {mtu} up")
    run(f"ip addr add 10.9.0.{number}/24 dev {dev}")
    run(f"ip -6 addr add fd09::{number}/64 dev {dev} nodad")


def delete_leftovers():
    """Of runs that were killed: namespaces with the number of a process that is no more."""
    for name in re.findall(rf"^{PREFIX}\d+[a-z]", sh("ip netns list"), re.MULTILINE):
        if not os.path.exists(f"/proc/{name[len(PREFIX):-1]}"):
            sh("ip", "netns", "del", name)


class Netns:
    """Deleted, with all that is in it, at the end of the with block."""

    def __init__(self, role):
        self.name = f"{PREFIX}{os.getpid()}{role}"
        sh("ip", "netns", "add", self.name)
        # Nothing but the case's own packets: no router solicitations, no multicast reports.
        self.run("sh -c 'echo 0 >/proc/sys/net/ipv6/conf/default/router_solicitations'")
        self.run("ip link set lo up")

    def run(self, command, **options):
        return sh(f"ip netns exec {self.name} {command}", **options)

    def process(self, argv, log, **options):
        return Process(argv, log, netns=self.name, **options)

    def adopt(self, dev, other):
        """Take a device out of the other namespace."""
        sh("ip", "-n", other.name, "link", "set", dev, "netns", self.name)

    def add_veth(self, dev, other, other_dev):
        sh("ip", "-n", self.name, "link", "add", dev, "type", "veth", "peer", "name", other_dev,
           "netns", other.name)

    def delete(self):
        try:
            sh("ip", "netns", "del", self.name)
        except Failed:
            pass

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.delete()
