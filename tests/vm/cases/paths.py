# SPDX-License-Identifier: BSD-3-Clause
"""A guest on a simulated NIC: its rings move between direct, relay and software under traffic."""
import statistics

from harness import features
from harness.load import Load
from harness.machine import nic_options, vhost_user_arguments
from harness.network import FAR_MAC, configure
from harness.process import Failed, wait_for
from harness.registry import add

ROUNDS = 6
WAYS = ("relay", "direct", "software", "direct", "software", "relay", "software", "relay", "direct")
# For a device that starts rings at their beginning only: back to direct goes by way of a relay, and
# when the ring is at its beginning again.
WAYS_BY_WRAP = ("software", "direct", "relay", "direct")


def bridge(rig):
    """The simulated NIC's tap beside that of the uplink, at the far end."""
    rig.far.adopt("sim0", rig.host)
    rig.far.run("ip addr flush dev eth0")
    rig.far.run("ip -6 addr flush dev eth0")
    rig.far.run("ip link add br0 type bridge stp_state 0 mcast_snooping 0")
    for dev in ("eth0", "sim0"):
        rig.far.run(f"ip link set {dev} address 02:00:00:09:01:{'01' if dev == 'eth0' else '02'}")
        rig.far.run(f"ip link set {dev} master br0 up")
    rig.far.run(f"ip link set br0 address {FAR_MAC}")
    configure(rig.far.run, "br0", 1, 1500)


def boot(rig, nic, arguments):
    port = rig.port(device=f"sim,wire=tap:sim0{arguments}")
    daemon = rig.daemon(port)
    bridge(rig)
    vm = rig.vm(arguments=vhost_user_arguments(port["socket"], nic)).wait_ready()
    features.check(vm.console.run("cat /sys/bus/virtio/devices/virtio0/features"), nic)
    guest = rig.guest(vm)
    guest.configure()
    guest.serve()
    guest.wait_path()
    return daemon, guest


def paths(daemon):
    rings = daemon.port("vm0")["rings"]
    return [ring["path"] for ring in rings if ring["state"] == "running"]


def go(daemon, way):
    daemon.ask("port", "path", "vm0", way)
    wait_for(f"both rings are on the path {way}", lambda: paths(daemon) == [way] * 2)


def note_moves(rig, moves):
    """How long a ring had no owner, for each kind of move."""
    kinds = {}
    for move in moves:
        if move["from"] != "none":
            kinds.setdefault((move["from"], move["to"]), []).append(move["took-us"])
    for (old, new), took in sorted(kinds.items()):
        rig.note(f"{old} to {new}: {len(took)} times, without owner for {statistics.median(took)}"
                 f" us, at most {max(took)}")


def switch(rig, nic, ways=WAYS, arguments=""):
    nic = nic_options({**features.OFFLOADS_OFF, **nic})
    daemon, guest = boot(rig, nic, arguments)
    if paths(daemon) != ["direct"] * 2:
        raise Failed(f"paths at the start: {daemon.port('vm0')}")
    before = daemon.packets("vm0")
    guest.check()
    if daemon.packets("vm0") != before:
        raise Failed("the daemon moved packets itself, though the path is direct")
    load, moves = Load(rig, guest, cut=True), {}
    for _ in range(ROUNDS):
        for way in ways:
            go(daemon, way)
        load.check()
        moves.update({(m["at-us"], m["ring"]): m for m in daemon.ask("port", "moves", "vm0")})
    out, into, runs = load.finish()
    guest.check()
    note_moves(rig, moves.values())
    rig.note(f"datagrams: from the guest {out}, to it {into}; {runs} runs of TCP")


for _format, _nic in (("split", {}), ("packed", {"packed": True})):
    add(f"paths-{_format}", lambda rig, nic=_nic: switch(rig, nic))
# A packed ring begins anew after two laps, a split one after 65536 buffers.
add("paths-packed-wrap", lambda rig: switch(rig, {"packed": True}, WAYS_BY_WRAP, ",without=seek"))
