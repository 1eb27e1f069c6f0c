# SPDX-License-Identifier: BSD-3-Clause
"""A guest moves between two hosts, there and back, with traffic in both directions."""
from dataclasses import dataclass, field

from harness import features
from harness.guest_memory import differing_pages
from harness.load import Load
from harness.machine import Memory
from harness.migration import Pair, announced
from harness.network import COUNT_PORT
from harness.process import Failed
from harness.registry import add
from harness.traffic import figures

MOVES, CANCELLED, COMPARED = 10, (2, 5, 8), (0, 5)
FAST, SLOW = 1 << 34, 8 << 20           # bytes a second
PARKED, PARKED_BYTES, PARKED_RATE = 200, 1400, 100

@dataclass
class Row:
    name: str
    nic: dict = field(default_factory=dict)
    queues: int = 1


def move(pair, load, kind, compare):
    """One way; returns the line to print about it."""
    before = pair.there.announcements(kind)
    pair.expect(paused=compare)
    load.begin_gap()
    pair.begin()
    q = pair.wait_over()
    if compare:
        pair.wait_arrived("paused")
        differ = differing_pages(pair.here.vm, pair.there.vm)
        if differ:
            raise Failed(f"{len(differ)} pages are not the same on both sides: {differ[:20]}")
        pair.there.vm.qmp("cont")
    pair.wait_arrived()
    announced(pair.there, kind, before)
    pair.change_over()
    pair.guest.wait_path()
    gap = load.check()["gap-ms"]
    return f"{q['downtime']}/{gap}" + ("*" if compare else "")


def there_and_back(rig, row):
    # Without mergeable buffers each of a ring has room for 64 KiB.
    large = row.queues > 1 and not row.nic["mrg_rxbuf"]
    pair = Pair(rig, row.nic, row.queues)
    if large:
        pair.memory = Memory(mb=256)
    guest = pair.boot()
    features.check(guest.vm.console.run("cat /sys/bus/virtio/devices/virtio0/features"), pair.nic)
    kind = "arp" if row.nic.get("guest_announce", True) else "rarp"
    load = Load(rig, guest)
    moves, held = [], []
    for n in range(MOVES):
        if n in CANCELLED:
            pair.cancel()
            guest.wait_path()
            load.check()
        moves.append(move(pair, load, kind, n in COMPARED))
        held.append(pair.there.daemon.counts())
    out, into, runs = load.finish()
    guest.check()
    if row.queues > 1:
        pair.here.daemon.check_rings_used(pair.here.port["name"], row.queues)
    rig.note(f"downtime/gap in ms, * with memory compared meanwhile: {' '.join(moves)}")
    rig.note(f"{len(CANCELLED)} cancelled; datagrams lost: {out['lost']} of {out['got']} from"
             f" the guest, {into['lost']} of {into['got']} to it; {runs} runs of TCP;"
             f" all moves announced by {kind}")
    for now, first in zip(held[-2:], held[:2]):
        if now["fds"] > first["fds"] or now["maps"] > first["maps"] + 4:
            raise Failed(f"a daemon without a guest grew from {first} to {now}")


for _format, _packed in (("split", False), ("packed", True)):
    for _queues in (1, 4):
        for _mrg in (True, False):
            # Guests of some rows announce themselves, those of the others leave it to us.
            _nic = {"packed": _packed, "mrg_rxbuf": _mrg,
                    "guest_announce": _mrg != (_queues == 1)}
            _row = Row(f"migrate-{_format}" + ("" if _mrg else "-no-mrg") +
                       (f"-{_queues}-pairs" if _queues > 1 else ""), _nic, _queues)
            add(_row.name, lambda rig, row=_row: there_and_back(rig, row))


def park(rig, pair):
    """Datagrams arrive in buffers that were copied already, and nobody in the guest looks at them
    until it is on the other side: only the dirty log takes them along.  Returns the figures of
    their receiver there and the number of pages that are not the same on both sides.

    Fewer datagrams than a ring has buffers: the guest zeroes pages that it gets anew.
    """
    guest = pair.boot()
    # It dirties memory faster than the migration may copy it, so that this goes on and on.
    guest.vm.console.run("dd if=/dev/urandom of=/tmp/a bs=1M count=24 2>/dev/null"
                         " && (while :; do cp /tmp/a /tmp/b; done) &"
                         f"\n vqpeer count-recv {COUNT_PORT} >/tmp/count.log & sleep 1;"
                         " kill -STOP $!; echo $! >/tmp/count.pid", 120)
    pair.expect(paused=True)
    pair.begin(2 * SLOW, limit_ms=1)
    pair.wait_pass(3)
    with rig.far.process([rig.place.vqpeer, "count-send", guest.address4, COUNT_PORT,
                          PARKED_BYTES, PARKED_RATE, PARKED], rig.folder / "park.log") as sender:
        sender.finish()
    pair.wait_pass(4)
    pair.set_speed(FAST, 5000)
    q = pair.wait_over()
    pair.wait_arrived("paused")
    differ = differing_pages(pair.here.vm, pair.there.vm)
    pair.there.vm.qmp("cont")
    pair.wait_arrived()
    pair.change_over()
    text = guest.vm.console.run("kill -CONT $(cat /tmp/count.pid); sleep 1;"
                                " kill $(cat /tmp/count.pid); sleep 1; tail -n 1 /tmp/count.log")
    rig.note(f"{text}; {len(differ)} pages differ; pass {q['ram']['dirty-sync-count']}")
    return figures(text), len(differ)


def parked(rig, nic):
    got, differ = park(rig, Pair(rig, nic))
    if got["got"] != PARKED or got["bad"] or differ:
        raise Failed(f"parked datagrams: {got}, expected {PARKED}; {differ} pages differ")


def parked_unlogged(rig, nic):
    """The control: without the log the same must go wrong, or the case above shows nothing."""
    pair = Pair(rig, nic, hide_log=True)
    got, differ = park(rig, pair)
    pair.hiders[0].check_used()
    if not got["bad"] or not differ:
        raise Failed(f"with the dirty log hidden nothing was missed: {got}, {differ} pages differ")


for _format, _nic in (("split", {}), ("packed", {"packed": True})):
    add(f"migrate-parked-{_format}", lambda rig, nic=_nic: parked(rig, nic))
    add(f"migrate-parked-{_format}-unlogged", lambda rig, nic=_nic: parked_unlogged(rig, nic))


def postcopy(rig, nic):
    """The guest runs on the other side while most of its memory is still here."""
    pair = Pair(rig, nic, postcopy=True)
    pair.need_postcopy()
    guest = pair.boot()
    load = Load(rig, guest)
    pair.expect()
    load.check()
    load.begin_gap()
    pair.begin(SLOW)
    pair.wait_moved(SLOW)
    pair.here.vm.qmp("migrate-set-parameters", max_postcopy_bandwidth=SLOW)
    pair.here.vm.qmp("migrate-start-postcopy")
    q = pair.wait_over()
    pair.wait_arrived()
    pair.change_over()
    guest.wait_path()
    gap = load.check()["gap-ms"]
    load.finish()
    guest.check()
    requests = q["ram"]["postcopy-requests"]
    rig.note(f"downtime {q['downtime']} ms, gap {gap} ms, {requests} pages asked for")
    if not requests:
        raise Failed("no page was missing, so this was no postcopy")


for _format, _nic in (("split", {}), ("packed", {"packed": True})):
    add(f"migrate-postcopy-{_format}", lambda rig, nic=_nic: postcopy(rig, nic))
