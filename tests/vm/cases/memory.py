# SPDX-License-Identifier: BSD-3-Clause
"""Memory that a guest gets while it runs."""
from cases import matrix
from cases.matrix import Row
from harness.machine import Memory
from harness.process import Failed, wait_for
from harness.registry import add

DIMM_MB = 256


def total_mib(vm):
    return int(vm.console.run("grep MemTotal /proc/meminfo").split()[1]) // 1024


def plug(vm, n):
    before = total_mib(vm)
    vm.qmp("object-add", id=f"dimm{n}", share=True, size=DIMM_MB << 20,
           **{"qom-type": "memory-backend-memfd"})
    vm.qmp("device_add", driver="pc-dimm", id=f"slot{n}", memdev=f"dimm{n}")
    wait_for("the guest uses the new memory", lambda: total_mib(vm) >= before + DIMM_MB - 32, 60)


def hot_plug(rig, nic):
    """Three modules under traffic, and then packets in buffers that lie there."""
    daemon, vm, guest = matrix.boot(rig, Row("", nic), memory=Memory(slots=4))
    before = daemon.port("vm0")["mem-bytes"]
    guest.start_load()
    for n in range(3):
        plug(vm, n)
    got = guest.stop_load()
    if got["resent"]:
        raise Failed(f"datagrams were lost while memory came: {got}")
    grown = daemon.port("vm0")["mem-bytes"] - before
    if grown != 3 * DIMM_MB << 20:
        raise Failed(f"the port's memory grew by {grown >> 20} MiB, expected {3 * DIMM_MB}")
    # With what the guest had at first in use, its packets are in what it got later.
    vm.console.run("mount -o remount,size=90% /tmp &&"
                   f" dd if=/dev/zero of=/tmp/fill bs=1M count={2 * DIMM_MB}", 120)
    guest.check(2)


for _name, _nic in (("split", {}), ("packed", {"packed": True})):
    add(f"hot-plug-memory-{_name}", lambda rig, nic=_nic: hot_plug(rig, nic))
