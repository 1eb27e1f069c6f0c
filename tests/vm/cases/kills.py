# SPDX-License-Identifier: BSD-3-Clause
"""The daemon is killed again and again, at random, with traffic in both directions."""
import os
import random
import re
import signal
import statistics
import time

from harness import features
from harness.load import Load
from harness.machine import migrating_qemu, nic_options, vhost_user_arguments
from harness.network import FAR4, FAR_MAC
from harness.process import Failed, wait_for
from harness.registry import add
from harness.rings import Ring

KILLS, CHECK_EVERY, LONGEST_LIFE = 100, 20, 0.5     # of each format
TURNS = 20                      # that a standby takes, of each format
RECONNECT_MS = 20
MEMORY_MB = 64                  # the least: the daemon is there the sooner
LOST = r"the front-end lost the position.* after (\d+) buffers"
BAD_RING = "is not a head|out of range"


def boot(rig, nic, **settings):
    """On an uplink that stays when the daemon ends, with a QEMU that reconnects at once."""
    program = migrating_qemu(rig.place.build / "qemu")
    port = rig.port(uplink="af_packet")
    daemon = rig.daemon(port, **settings)
    vm = rig.vm(program=program, arguments=vhost_user_arguments(
        port["socket"], nic, reconnect_ms=RECONNECT_MS)).wait_ready()
    features.check(vm.console.run("cat /sys/bus/virtio/devices/virtio0/features"), nic)
    guest = rig.guest(vm)
    guest.configure()
    guest.serve()
    guest.wait_path()
    return daemon, guest


def check_rings(vm, packed):
    """Every buffer that went out for sending came back, none came back twice."""
    receive, send = (Ring(vm, index, packed) for index in range(2))
    wait_for("all buffers of the sending ring are back", lambda: send.outstanding() == 0)
    if receive.outstanding() == 0:
        raise Failed("the receiving ring has no buffers")
    complaints = vm.console.run(f"dmesg | grep -E '{BAD_RING}' || true")
    if complaints:
        raise Failed(f"the guest says: {complaints}")


def kill(rig, nic):
    packed = nic.get("packed", False)
    daemon, guest = boot(rig, nic_options({"vectors": 4, **nic}), memory=MEMORY_MB)
    load = Load(rig, guest, cut=True)
    moments, gaps = random.Random(200), []
    start = time.monotonic()
    for n in range(KILLS):
        time.sleep(moments.random() * LONGEST_LIFE)
        load.begin_gap()
        daemon.stop(signal.SIGKILL)
        arrived = load.arrived()
        daemon.start()
        daemon.wait_state("vm0", "running")
        gaps.append(load.wait_more(arrived))
        if n % CHECK_EVERY == CHECK_EVERY - 1:
            load.check()
    seconds = time.monotonic() - start
    out, into, runs = load.finish()
    check_rings(guest.vm, packed)
    lost = [int(n) for n in re.findall(LOST, (rig.folder / "vqliftd.log").read_text())]
    if packed and not lost:
        raise Failed("the front-end never lost a position, so the record was not tested")
    guest.check()
    rig.note(f"{KILLS} kills in {seconds:.0f} s; gap in ms: median {statistics.median(gaps):.0f},"
             f" longest {max(gaps)}")
    rig.note(f"datagrams: from the guest {out}, to it {into}; {runs} runs of TCP")
    if packed:
        rig.note(f"QEMU lost a ring's position {len(lost)} times; {len(lost) - lost.count(0)} of"
                 f" these there were buffers in the middle of a batch, or passed over by QEMU:"
                 f" {sum(lost)}")


def take_turns(rig, nic):
    """The daemon that serves ends, politely and not, and its standby takes over."""
    settings = {"standby": "yes", "log-level": "debug"}
    daemon, guest = boot(rig, nic_options({"vectors": 4, **nic}), **settings)
    # QEMU reports the link as down meanwhile, and the guest forgets its neighbours; the first
    # question for them is often lost, and the next one is a second later.
    guest.vm.console.run(f"arp -s {FAR4} {FAR_MAC}")
    load = Load(rig, guest, cut=True)
    gaps = {signal.SIGKILL: [], signal.SIGTERM: []}
    for n in range(TURNS):
        number = list(gaps)[n % 2]
        daemon.wait_standby()
        load.begin_gap()
        before = daemon.serving()
        os.kill(before, number)
        arrived = load.arrived()
        gaps[number].append(load.wait_more(arrived))
        wait_for("another daemon serves",
                 lambda last=before: daemon.serving() not in (None, last))
        daemon.wait_state("vm0", "running")
        load.check()
    out, into, runs = load.finish()
    check_rings(guest.vm, nic.get("packed", False))
    guest.check()
    for number, of_it in gaps.items():
        rig.note(f"{len(of_it)} times {number.name}: gap in ms: median"
                 f" {statistics.median(of_it):.0f}, longest {max(of_it)}")
    rig.note(f"datagrams: from the guest {out}, to it {into}; {runs} runs of TCP")


for _format, _nic in (("split", {}), ("packed", {"packed": True})):
    add(f"standby-{_format}", lambda rig, nic=_nic: take_turns(rig, nic))
    add(f"killed-{KILLS}-times-{_format}", lambda rig, nic=_nic: kill(rig, nic))
