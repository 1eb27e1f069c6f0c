# SPDX-License-Identifier: BSD-3-Clause
"""iPXE, the NIC's own boot ROM: DHCP before any operating system, and then the system itself."""
import shutil

from harness import features
from harness.machine import MAC, nic_options, vhost_user_arguments
from harness.network import FAR4
from harness.process import Failed, wait_for
from harness.registry import add

LEASE, HTTP_PORT = "10.9.0.77", 8080
DHCP = """\
start {lease}
end {lease}
interface eth0
option subnet 255.255.255.0
option lease 3600
boot_file http://{far}:{port}/boot.ipxe
lease_file {folder}/leases
pidfile {folder}/udhcpd.pid
"""
SCRIPT = """\
#!ipxe
kernel vmlinuz console=ttyS0 panic=-1 quiet
initrd initramfs
boot
"""


def serve_boot(rig):
    kernel, initramfs = rig.place.boot
    site = rig.folder / "site"
    site.mkdir()
    shutil.copy(kernel, site / "vmlinuz")
    shutil.copy(initramfs, site / "initramfs")
    (site / "boot.ipxe").write_text(SCRIPT)
    rig.enter_context(rig.far.process(["python3", "-m", "http.server", HTTP_PORT, "--bind", FAR4,
                                       "--directory", site], rig.folder / "http.log"))
    (rig.folder / "leases").touch()
    (rig.folder / "udhcpd.conf").write_text(
        DHCP.format(lease=LEASE, far=FAR4, port=HTTP_PORT, folder=rig.folder))
    return rig.enter_context(rig.far.process(
        ["busybox", "udhcpd", "-f", rig.folder / "udhcpd.conf"], rig.folder / "udhcpd.log"))


def network_boot(rig, options):
    port = rig.port()
    daemon = rig.daemon(port)
    dhcp = serve_boot(rig)
    nic = nic_options(options, rom=None)
    vm = rig.vm(boot=None, arguments=[*vhost_user_arguments(port["socket"], nic), "-boot", "n"])
    wait_for("iPXE starts the rings", lambda: daemon.port("vm0")["state"] == "running", 60)
    dhcp.wait_output(rf"(?i)sending ACK to {LEASE}")
    # The kernel and the initramfs came over the port, and both hold checksums of themselves.
    vm.wait_ready()
    mac = vm.console.run("cat /sys/class/net/eth0/address")
    if mac != MAC:
        raise Failed(f"the guest's address is {mac}, expected {MAC}")
    features.check(vm.console.run("cat /sys/bus/virtio/devices/virtio0/features"), nic)
    guest = rig.guest(vm)
    guest.configure()
    guest.serve()
    guest.wait_path()
    guest.check()


for _name, _options in (("modern", {}), ("packed", {"packed": True}),
                        ("legacy", {"disable-modern": True, "disable-legacy": False})):
    add(f"ipxe-{_name}", lambda rig, options=_options: network_boot(rig, options))
