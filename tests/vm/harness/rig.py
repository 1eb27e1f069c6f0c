# SPDX-License-Identifier: BSD-3-Clause
"""Everything that a case needs, taken down in the right order at its end."""
import json
import re
import shutil
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from . import traffic
from .daemon import Daemon
from .hugepages import hugetlbfs, reserve
from .image import Kernel, build_initramfs
from .machine import Vm
from .network import FAR_MAC, Netns, configure, delete_leftovers
from .process import Failed

# Device arguments of the uplink of port {n}; what the far end gets is always called eth{n}.
UPLINKS = {
    "tap": "net_tap{n},iface=eth{n}",
    "af_packet": "net_af_packet{n},iface=wire{n}",
    "af_xdp": "net_af_xdp{n},iface=wire{n}",
    "pcap": "net_pcap{n},iface=wire{n}",
    "loopback": "loopback",
}


@dataclass
class Place:
    """Where things are: the build folder, the image, the logs."""
    build: Path
    logs: Path
    vqpeer: Path = None
    boot: tuple = None

    def prepare(self):
        delete_leftovers()
        self.vqpeer = self.build / "tests/vm/vqpeer"
        kernel = Kernel(self.build / "guest")
        self.logs.mkdir(parents=True, exist_ok=True)
        self.boot = (kernel.image, build_initramfs(kernel, self.build / "guest.cpio.gz",
                                                   {"bin/vqpeer": self.vqpeer}))
        return self


class Rig(ExitStack):
    """A namespace for the daemon, one for the far end, and a folder for sockets and logs.
    Its path is short: a socket's path has at most 107 bytes."""

    def __init__(self, place, report):
        super().__init__()
        self.place = place
        self.note = report.note
        self.daemons = []
        self.folder = Path(tempfile.mkdtemp(prefix="vqvm-"))
        self.callback(shutil.rmtree, self.folder, ignore_errors=True)

    def open(self, inside=False):
        """inside: the daemon runs at the far end, so that its taps are there without a move."""
        self.far = self.enter_context(Netns("f"))
        self.host = self.far if inside else self.enter_context(Netns("h"))
        for server in traffic.serve(self.far, self.folder, self.place.vqpeer):
            self.enter_context(server)
        return self

    def port(self, n=0, uplink="tap", **keys):
        """The configuration of port vm{n}."""
        return {"name": f"vm{n}", "socket": str(self.folder / f"vm{n}.sock"),
                "uplink": UPLINKS[uplink].format(n=n), **keys}

    def daemon(self, *ports, mtu=1500, **settings):
        for port in ports:
            if "iface=wire" in port["uplink"]:
                number = re.search(r"iface=wire(\d+)", port["uplink"])[1]
                self.lay_wire(self.far, f"wire{number}", f"eth{number}", mtu)
        daemon = Daemon(self.folder, self.host, self.place.build, list(ports), **settings)
        self.daemons.append(self.enter_context(daemon))
        self.join(daemon, mtu)
        return daemon

    def lay_wire(self, other, wire, dev, mtu):
        """A veth pair from the daemon's namespace to another, for a device that takes over an
        interface.  What crosses a veth has no checksums yet, unless that is switched off."""
        self.host.add_veth(wire, other, dev)
        self.host.run(f"ip link set {wire} mtu {mtu} up")
        other.run(f"{self.place.vqpeer} offload {dev} off")

    def join(self, daemon, mtu=1500):
        """Give the far end its side of all uplinks; again, if the daemon was restarted.
        Several uplinks become the ports of a bridge."""
        devices = []
        for n, port in enumerate(daemon.ports):
            if port["uplink"].startswith("net_tap") and self.host is not self.far:
                self.far.adopt(f"eth{n}", self.host)
            if port["uplink"] != "loopback":
                devices.append(f"eth{n}")
        if len(devices) <= 1:
            for dev in devices:
                # A peer behind a wire keeps its address when the daemon's tap is made anew; the
                # guest knows no other one for as long as its neighbour table remembers it.
                self.far.run(f"ip link set {dev} address {FAR_MAC}")
                configure(self.far.run, dev, 1, mtu)
            return
        self.far.run("ip link add br0 type bridge stp_state 0 mcast_snooping 0")
        for dev in devices:
            self.far.run(f"ip link set {dev} master br0 up")
        configure(self.far.run, "br0", 1, mtu)

    def examine(self):
        """After a failure: what the daemons say about themselves joins the logs."""
        for n, daemon in enumerate(self.daemons):
            try:
                answers = [daemon.ask("show", "workers"),
                           *(daemon.ask(*words, port["name"]) for port in daemon.ports[:2]
                             for words in (["port", "show"], ["stats"]))]
                text = json.dumps(answers, indent=2)
            except Failed as error:
                text = str(error)
            (self.folder / f"daemon{n}.json").write_text(text + "\n")

    def hugepages(self, mb):
        """Reserve them until the end; return the folder of a hugetlbfs."""
        self.enter_context(reserve(mb))
        return self.enter_context(hugetlbfs(self.folder / "huge"))

    def vm(self, name="guest", **options):
        return self.enter_context(Vm(name, self.folder, options.pop("boot", self.place.boot),
                                     **options))

    def guest(self, vm, mtu=1500, number=2):
        return traffic.Guest(self, vm, mtu, number)
