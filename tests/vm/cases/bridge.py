# SPDX-License-Identifier: BSD-3-Clause
"""Two guests of one daemon that talk through a bridge of the far end."""
from harness.machine import nic_options, vhost_user_arguments
from harness.registry import case


@case("two-guests")
def two_guests(rig):
    ports = [rig.port(0), rig.port(1)]
    rig.daemon(*ports)
    guests = []
    for n, (port, options) in enumerate(zip(ports, ({}, {"packed": True}))):
        nic = nic_options(options, mac=f"52:54:00:00:00:1{n}")
        vm = rig.vm(f"guest{n}", arguments=vhost_user_arguments(port["socket"], nic))
        guests.append(rig.guest(vm, number=2 + n))
    for guest in guests:
        guest.vm.wait_ready()
        guest.configure()
        guest.serve()
    for guest, other in (guests, guests[::-1]):
        guest.wait_path(address=other.address4)
        guest.echo(150, 1, address=other.address4)
        guest.echo(600, 16, lossless=False, address=other.address4)
        guest.stream(2, 2048, address=other.address4)
        guest.check()
