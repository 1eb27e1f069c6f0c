# SPDX-License-Identifier: BSD-3-Clause
"""What the daemon costs while nothing happens, and how soon it is there: figures to look at."""
import time
from contextlib import ExitStack

from cases import matrix
from harness.front_end import FrontEnd
from harness.process import Failed
from harness.registry import case

# Debian's DPDK holds 32 devices, and a tap takes one of the process's few real-time signals; the
# daemon's own loopback is no device.
TAPS, LOOPBACKS = 16, 48
WATCH_SECONDS = 10
MOST_CPU = 0.01                 # of one core, with all ports connected


def watch(rig, ports, what):
    """The share of a core that the daemon uses with a front-end on each of these ports."""
    daemon = rig.daemon(*ports)
    rig.note(f"resident, {len(ports)} {what}, nobody connected: {daemon.rss_kib() >> 10} MiB")
    with ExitStack() as front_ends:
        for port in ports:
            front_ends.enter_context(FrontEnd(port["socket"]))
            daemon.wait_state(port["name"], "running")
        time.sleep(1)           # what it does once after a connection is not what we look at
        before, start = daemon.cpu_seconds(), time.monotonic()
        time.sleep(WATCH_SECONDS)
        share = (daemon.cpu_seconds() - before) / (time.monotonic() - start)
        rig.note(f"{len(ports)} {what}, a front-end on each: {share * 100:.2f} % of one core,"
                 f" {daemon.rss_kib() >> 10} MiB resident")
    daemon.stop()
    return share


@case("idle")
def idle(rig):
    """One port, then 64; a worker sleeps on the receive interrupts of the taps among them."""
    watch(rig, [rig.port()], "port")
    ports = [rig.port(n) for n in range(TAPS)]
    ports += [rig.port(n, uplink="loopback") for n in range(TAPS, TAPS + LOOPBACKS)]
    share = watch(rig, ports, "ports")
    if share > MOST_CPU:
        raise Failed(f"an idle daemon uses {share * 100:.2f} % of one core, expected at most"
                     f" {MOST_CPU * 100:g} %")


@case("first-packet", quick=True)
def first_packet(rig):
    """From the connection to the guest's first packet, as the daemon counts it."""
    daemon, vm, _ = matrix.boot(rig, matrix.Row("first-packet"))
    port = daemon.port("vm0")
    rig.note(f"guest's shell after {vm.seconds():.1f} s; connection to first packet:"
             f" {port['first-packet-us'] / 1e6:.3f} s")
    if port["first-packet-us"] < 0:
        raise Failed("the daemon saw no first packet")
