# SPDX-License-Identifier: BSD-3-Clause
"""What happens to a guest's network when one side goes away and comes back."""
import random
import signal

from cases import matrix
from cases.matrix import Row
from harness.machine import nic_options, vhost_user_arguments
from harness.network import FAR4, STREAM_PORT
from harness.process import Failed, wait_for
from harness.registry import add, case

PACKED = {"packed": True}


def restart(rig, row):
    """The daemon ends, politely and not, four times, with traffic in flight."""
    daemon, vm, guest = matrix.boot(rig, row)
    guest.start_load()
    for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM):
        daemon.stop(number)
        daemon.start()
        rig.join(daemon)
        daemon.wait_state("vm0", "running")
        guest.wait_path()
        guest.echo(40, 4, lossless=False)
    # What was lost was sent again; what came must be right.
    got = guest.stop_load()
    if not got["answered"]:
        raise Failed(f"nothing came through: {got}")
    guest.check()


def reboot(rig, row):
    """The guest reboots from within: the rings stop, move and start with the same connection."""
    daemon, vm, _ = matrix.boot(rig, row, reboots=True)
    for _ in range(2):
        vm.console.send("reboot -f\n")
        vm.wait_ready()
        guest = rig.guest(vm)
        guest.configure()
        guest.serve()
        guest.wait_path()
        guest.check()
    if daemon.port("vm0")["connections"] != 1:
        raise Failed(f"{daemon.port('vm0')['connections']} connections, expected 1")


for _format, _nic in (("split", {}), ("packed", PACKED)):
    for _name, _role in (("", "server"), ("-qemu-server", "client")):
        add(f"restart-{_format}{_name}",
            lambda rig, nic=_nic, role=_role: restart(rig, Row("", nic, role=role)),
            quick=_role == "server" and _format == "packed")
    add(f"reboot-{_format}", lambda rig, nic=_nic: reboot(rig, Row("", nic)))


def plug_nic(vm, socket, nic):
    vm.qmp("chardev-add", id="vu", backend={"type": "socket", "data": {
        "addr": {"type": "unix", "data": {"path": socket}}, "server": False}})
    vm.qmp("netdev_add", type="vhost-user", id="net0", chardev="vu")
    vm.qmp("device_add", **nic)


def unplug_nic(vm, nic):
    vm.qmp("device_del", id=nic["id"])
    vm.qmp.wait_event("DEVICE_DELETED", device=nic["id"])
    vm.qmp("netdev_del", id="net0")     # and with it its chardev


@case("hot-plug-nic")
def hot_plug_nic(rig):
    """Port and NIC come and go while daemon and guest run."""
    daemon = rig.daemon()
    vm = rig.vm(arguments=["-device", "pcie-root-port,id=slot0,chassis=1"]).wait_ready()
    for options in ({}, PACKED, {}):
        port, nic = rig.port(), nic_options(options, bus="slot0")
        daemon.add(port)
        rig.join(daemon)
        plug_nic(vm, port["socket"], nic)
        guest = rig.guest(vm)
        guest.configure()
        guest.serve()
        guest.wait_path()
        guest.check()
        vm.console.run("kill $(pidof vqpeer)")
        unplug_nic(vm, nic)
        daemon.wait_state("vm0", "waiting")
        daemon.delete(port)
        if daemon.ask("port", "show") or "eth0" in rig.far.run("ip link"):
            raise Failed("the port was deleted, but it or its tap is still there")


def kill_with_traffic(rig, daemon, arguments):
    """A whole boot; the end comes in the middle of streams."""
    vm = rig.vm(arguments=arguments).wait_ready()
    guest = rig.guest(vm)
    guest.configure()
    guest.wait_path()
    guest.echo(60, 1)
    vm.console.start(f"vqpeer stream {FAR4} {STREAM_PORT} 4 262144")
    before = sum(daemon.packets("vm0"))
    wait_for("some of the streams", lambda: sum(daemon.packets("vm0")) > before + 500, 60)
    vm.kill()


@case("qemu-killed")
def qemu_killed(rig):
    """Twenty times, at moments from the connection to streams; nothing may be left behind."""
    port = rig.port()
    daemon = rig.daemon(port)
    # The firmware's own driver starts the rings soon, without any operating system.
    firmware = vhost_user_arguments(port["socket"], nic_options({}, rom=None))
    system = vhost_user_arguments(port["socket"], nic_options({}))
    moments = random.Random(20)
    counts = []
    for n in range(20):
        if n in (0, 10, 19):
            kill_with_traffic(rig, daemon, system)
        else:
            vm = rig.vm(boot=None, arguments=firmware)
            daemon.wait_state("vm0", *(["connected", "running"] if n % 3 else ["running"]))
            wait_for("a while", lambda end=vm.seconds() + moments.random(): vm.seconds() > end)
            vm.kill()
        daemon.wait_state("vm0", "waiting")
        counts.append(daemon.counts())
    if daemon.port("vm0")["connections"] != 20:
        raise Failed(f"{daemon.port('vm0')['connections']} connections, expected 20")
    if counts[-1]["fds"] > counts[0]["fds"] or counts[-1]["maps"] > counts[0]["maps"] + 4:
        raise Failed(f"grew from {counts[0]} to {counts[-1]}")
