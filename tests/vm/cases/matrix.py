# SPDX-License-Identifier: BSD-3-Clause
"""One guest a row: device options, kind of memory, queue pairs, role, uplink; checked traffic."""
import socket
from dataclasses import dataclass, field

from harness import features
from harness.machine import Memory, nic_options, vhost_user_arguments
from harness.network import FAR4, STREAM_PORT
from harness.process import Failed
from harness.registry import add
from harness.report import Skip

AF_XDP = 44

PLAIN = {"mrg_rxbuf": False, "event_idx": False, "indirect_desc": False, **features.OFFLOADS_OFF}


@dataclass
class Row:
    name: str
    nic: dict = field(default_factory=dict)
    memory: str = "memfd"
    queues: int = 1
    role: str = "server"        # the daemon's
    uplink: str = "tap"
    mtu: int = 1500
    quick: bool = False


ROWS = [
    Row("split", quick=True),
    Row("packed", {"packed": True}, quick=True),
    Row("split-no-mrg", {"mrg_rxbuf": False}),
    Row("packed-no-mrg", {"mrg_rxbuf": False, "packed": True}),
    Row("split-4-pairs", {"mq": True}, queues=4, quick=True),
    Row("packed-4-pairs", {"mq": True, "packed": True}, queues=4),
    Row("split-no-event-idx", {"event_idx": False}),
    Row("packed-no-event-idx", {"event_idx": False, "packed": True}),
    Row("split-no-indirect", {"indirect_desc": False}),
    Row("packed-no-indirect", {"indirect_desc": False, "packed": True}),
    Row("split-no-offloads", features.OFFLOADS_OFF),
    Row("packed-no-offloads", {**features.OFFLOADS_OFF, "packed": True}),
    Row("split-plain", PLAIN),
    Row("packed-plain", {**PLAIN, "packed": True}),
    Row("legacy", {"disable-modern": True, "disable-legacy": False}),
    Row("legacy-plain", {**PLAIN, "disable-modern": True, "disable-legacy": False}),
    Row("rings-1024", {"rx_queue_size": 1024, "tx_queue_size": 1024}),
    Row("page-per-vq", {"page-per-vq": True, "packed": True}),
    Row("memory-hugetlbfs", memory="hugetlbfs"),
    Row("memory-memfd-huge", {"packed": True}, memory="memfd-huge"),
    Row("memory-file", memory="file"),
    Row("qemu-server", role="client"),
    Row("qemu-server-4-pairs", {"packed": True, "mq": True}, queues=4, role="client"),
    Row("uplink-af-packet", uplink="af_packet"),
    Row("uplink-af-xdp", uplink="af_xdp"),
    Row("jumbo-split", {"host_mtu": 9000}, uplink="pcap", mtu=9000),
    Row("jumbo-packed", {"host_mtu": 9000, "packed": True}, uplink="pcap", mtu=9000),
]


def memory_of(rig, kind):
    if kind == "hugetlbfs":
        return Memory("file", folder=rig.hugepages(Memory.mb))
    if kind == "memfd-huge":
        rig.hugepages(Memory.mb)
    return Memory(kind, folder=rig.folder)


def boot(rig, row, **vm_options):
    """The daemon, a guest with the row's NIC on it, and its network set up."""
    port = rig.port(uplink=row.uplink, role=row.role, **{"queue-pairs": row.queues})
    daemon = rig.daemon(port, mtu=row.mtu)
    nic = nic_options(row.nic)
    arguments = vhost_user_arguments(port["socket"], nic, row.queues,
                                     server=row.role == "client",
                                     reconnect=row.role == "server")
    vm_options.setdefault("memory", memory_of(rig, row.memory))
    vm = rig.vm(arguments=arguments, cpus=row.queues, **vm_options)
    vm.wait_ready()
    features.check(vm.console.run("cat /sys/bus/virtio/devices/virtio0/features"), nic)
    guest = rig.guest(vm, row.mtu)
    guest.configure()
    guest.serve()
    guest.wait_path()
    return daemon, vm, guest


def change_channels(vm, queues):
    """ethtool -L again and again while streams run, which must all arrive."""
    mark = vm.console.start(f"vqpeer stream {FAR4} {STREAM_PORT} {2 * queues} 3072 >/tmp/load 2>&1"
                            " & load=$!\n"
                            "rounds=0\n"
                            "while kill -0 $load 2>/dev/null; do\n"
                            f"for n in $(seq 1 {queues}) 2; do\n"
                            "vqpeer channels eth0 $n >/dev/null || exit 1\n"
                            "done; rounds=$((rounds + 1)); done\n"
                            "wait $load && test $rounds -gt 1")
    code, text = vm.console.finish(mark, 240)
    if code:
        raise Failed(f"streams while channels change: {text} {vm.console.run('cat /tmp/load')}")
    text = vm.console.run(f"vqpeer channels eth0 {queues}")
    if text != f"combined {queues} max {queues}":
        raise Failed(f"channels: {text}")


def check_segmentation(rig, guest, nic):
    """The guest hands over packets that are cut on the way, or, without TSO, none."""
    def counts():
        return (int(guest.vm.console.run("cat /sys/class/net/eth0/statistics/tx_packets")),
                int(rig.far.run("cat /sys/class/net/eth0/statistics/rx_packets")))
    sent, arrived = counts()
    guest.stream(1, 4096)
    sent, arrived = (after - before for after, before in zip(counts(), (sent, arrived)))
    # The two are not read in the same moment; cut packets are many times as many.
    if (arrived > sent * 1.2) != nic.get("host_tso4", True):
        raise Failed(f"the guest sent {sent} packets, {arrived} arrived")


def need_af_xdp():
    try:
        socket.socket(AF_XDP, socket.SOCK_RAW).close()
    except OSError as error:
        raise Skip(f"no AF_XDP in this kernel: {error}") from None


def run(rig, row):
    if row.uplink == "af_xdp":
        need_af_xdp()
    daemon, vm, guest = boot(rig, row)
    guest.check()
    check_segmentation(rig, guest, row.nic)
    if row.queues > 1:
        change_channels(vm, row.queues)
        guest.stream(4 * row.queues, 256)
        daemon.check_rings_used("vm0", row.queues)
    state = daemon.port("vm0")
    if state["state"] != "running":
        raise Failed(f"the port is {state['state']}: {state['reason']}")
    if state["mtu-negotiated"] != row.nic.get("host_mtu"):
        raise Failed(f"MTU negotiated: {state['mtu-negotiated']}")


for _row in ROWS:
    add(_row.name, lambda rig, row=_row: run(rig, row), _row.quick)
