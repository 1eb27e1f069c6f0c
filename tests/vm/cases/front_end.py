# SPDX-License-Identifier: BSD-3-Clause
"""DPDK's own front-end: testpmd joins a virtio-user port to a device whose other end is in a
namespace of its own, so that the same checked traffic as a guest's runs through it:

    near - veth - testpmd - virtio-user - vqliftd - veth - far
"""
import subprocess
from dataclasses import dataclass

from harness.network import ECHO_PORT, FAR4, Netns, STREAM_PORT, configure
from harness.process import wait_for
from harness.registry import add
from harness.traffic import HEADERS4, MIN_PAYLOAD, judge


@dataclass
class Row:
    name: str
    device: str                 # arguments of net_virtio_user
    queues: int = 1


ROWS = [
    Row("split", "mrg_rxbuf=1"),
    Row("split-no-mrg", "mrg_rxbuf=0"),
    Row("split-in-order", "mrg_rxbuf=1,in_order=1"),
    Row("split-in-order-no-mrg", "mrg_rxbuf=0,in_order=1"),
    Row("packed", "packed_vq=1,mrg_rxbuf=1,in_order=0"),
    Row("packed-no-mrg", "packed_vq=1,mrg_rxbuf=0,in_order=0"),
    Row("packed-in-order", "packed_vq=1,mrg_rxbuf=1,in_order=1"),
    Row("packed-in-order-no-mrg", "packed_vq=1,mrg_rxbuf=0,in_order=1"),
    Row("packed-ring-of-odd-size", "packed_vq=1,mrg_rxbuf=1,queue_size=1000"),
    Row("split-2-queues", "mrg_rxbuf=1", queues=2),
    Row("packed-2-queues", "packed_vq=1,mrg_rxbuf=1,in_order=1", queues=2),
]


def start_testpmd(rig, row, socket, uplink, mtu):
    argv = ["dpdk-testpmd", "--lcores", "0@(0-1),1@(0-1)", "--no-huge", "--no-shconf", "-m", 512,
            "--no-pci", "--file-prefix", rig.far.name,
            "--vdev", f"net_virtio_user0,path={socket},queues={row.queues},{row.device}",
            "--vdev", uplink, "--", "--interactive", "--auto-start", "--forward-mode=io",
            f"--rxq={row.queues}", f"--txq={row.queues}", "--total-num-mbufs=8192",
            "--mbuf-size=10240", f"--max-pkt-len={mtu + 18}"]
    process = rig.enter_context(rig.host.process(argv, rig.folder / "testpmd.log",
                                                 stdin=subprocess.PIPE))
    process.wait_output("testpmd> ")


def run(rig, row):
    # libpcap carries 9000 bytes, but has one queue; af_packet has several, of 1500.
    mtu, kind = (9000, "pcap") if row.queues == 1 else (1500, "af_packet")
    pairs = "" if row.queues == 1 else f",qpairs={row.queues}"
    near = rig.enter_context(Netns("n"))
    port = rig.port(uplink=kind, **{"queue-pairs": row.queues})
    port["uplink"] += pairs
    daemon = rig.daemon(port, mtu=mtu)
    rig.lay_wire(near, "wire9", "eth9", mtu)
    configure(near.run, "eth9", 2, mtu)
    start_testpmd(rig, row, port["socket"], f"net_{kind}9,iface=wire9{pairs}", mtu)
    daemon.wait_state("vm0", "running")
    wait_for("an answer from the far end", lambda: answers(near))
    vqpeer = rig.place.vqpeer

    def echo(count, window):
        return near.process([vqpeer, "echo", FAR4, ECHO_PORT, MIN_PAYLOAD, mtu - HEADERS4, count,
                             window], rig.folder / f"echo-{count}.log")

    with echo(400, 1) as one_by_one:
        judge("one by one", one_by_one.finish(300))
    # As many as there are lengths: each comes up once.
    with echo(mtu - HEADERS4 - MIN_PAYLOAD + 1, 32) as bursts, echo(3000, 16) as others:
        judge("bursts of every length", bursts.finish(300), lossless=False)
        judge("other bursts", others.finish(300), lossless=False)
    near.run(f"{vqpeer} stream {FAR4} {STREAM_PORT} {4 * row.queues} 2048")
    daemon.check_rings_used("vm0", row.queues)
    rig.note(f"connection to first packet: {daemon.port('vm0')['first-packet-us'] / 1e6:.3f} s")


def answers(near):
    return "1 packets received" in near.run(f"busybox ping -c 1 -W 1 {FAR4}", check=False)


for _row in ROWS:
    add(f"testpmd-{_row.name}", lambda rig, row=_row: run(rig, row),
        quick=_row.name == "packed-in-order")
