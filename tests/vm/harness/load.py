# SPDX-License-Identifier: BSD-3-Clause
"""Traffic that goes on and on: counted datagrams and TCP, both ways."""
import signal

from .network import COUNT_PORT, FAR4, STREAM_PORT
from .process import Failed, wait_for
from .traffic import figures

BYTES, RATE = 1200, 200
WRONG = "is wrong"                      # what vqpeer says of a byte
STALL = 180     # seconds: TCP waits ever longer after each packet that was lost

# The guest's side: a stream out, one in, and TCP, one run after the other.
GUEST = f"""\
vqpeer count-recv {COUNT_PORT} >/tmp/count.log & echo $! >/tmp/count.pid
vqpeer count-send {FAR4} {COUNT_PORT} {BYTES} {RATE} 0 & echo $! >/tmp/send.pid
(while [ ! -e /tmp/stop ]; do
vqpeer stream {FAR4} {STREAM_PORT} 2 2048 {STALL}
done >/tmp/tcp.log 2>&1; touch /tmp/stopped) &"""


class Load:
    """cut: the path is cut so often that TCP may give up, and a datagram may come twice to the far
    end, from a back-end that died before it could say that it had sent it."""

    def __init__(self, rig, guest, cut=False):
        self.guest, self.cut, self.got = guest, cut, {"out": 0, "in": 0}
        far, vqpeer = rig.far, rig.place.vqpeer
        self.receiver = rig.enter_context(far.process([vqpeer, "count-recv", COUNT_PORT],
                                                      rig.folder / "far-count.log"))
        guest.vm.console.run(GUEST)
        self.sender = rig.enter_context(far.process(
            [vqpeer, "count-send", guest.address4, COUNT_PORT, BYTES, RATE, 0],
            rig.folder / "far-send.log"))

    def _out(self, number=signal.SIGUSR1):
        lines = self.receiver.output().count("\n")
        self.receiver.send_signal(number)
        wait_for("figures of the far end", lambda: self.receiver.output().count("\n") > lines,
                 step=0.005)
        return figures(self.receiver.output().splitlines()[-1])

    def _in(self):
        return figures(self.guest.vm.console.run(
            "lines=$(wc -l </tmp/count.log); kill -USR1 $(cat /tmp/count.pid);"
            " while [ $(wc -l </tmp/count.log) = $lines ]; do sleep 0.01; done;"
            " tail -n 1 /tmp/count.log"))

    def begin_gap(self):
        """From now on the far end looks for the longest time without a datagram."""
        self._out(signal.SIGUSR2)

    def arrived(self):
        """Datagrams at the far end so far."""
        return self._out()["got"]

    def wait_more(self, before):
        """The longest gap, in ms, once more datagrams arrived at the far end."""
        wait_for("the far end gets more datagrams", lambda: self.arrived() > before, step=0.01)
        return self._judge("out", self._out())["gap-ms"]

    def _judge(self, way, got):
        if got["bad"] or (got["repeated"] and not (self.cut and way == "out")):
            raise Failed(f"counted stream {way}: {got}")
        return got

    def _goes_on(self, way, ask):
        wait_for(f"counted stream {way} goes on", lambda: ask()["got"] > self.got[way])

    def check(self):
        """Both streams went on since the last check, and nothing in them was wrong; returns the
        far end's figures."""
        out = self._judge("out", self._out())
        into = self._judge("in", self._in())
        self._goes_on("out", self._out)
        self._goes_on("in", self._in)
        self.got = {"out": out["got"], "in": into["got"]}
        self._check_tcp()
        return out

    def _check_tcp(self):
        """The lines of the runs that are over, one for each."""
        lines = self.guest.vm.console.run("cat /tmp/tcp.log").splitlines()
        runs = [line for line in lines if line.startswith("flows")]
        failed = [line for line in runs if figures(line)["failed"]]
        if (failed and not self.cut) or any(WRONG in line for line in lines):
            raise Failed(f"TCP: {lines[-5:]}")
        return [line for line in runs if line not in failed]

    def finish(self):
        """The figures of both ways at the end, and how many runs TCP made."""
        console = self.guest.vm.console
        console.run("touch /tmp/stop; kill $(cat /tmp/send.pid)")
        self.sender.stop()
        out, into = self._judge("out", self._out()), self._judge("in", self._in())
        wait_for("the last run of TCP",
                 lambda: console.attempt("test -e /tmp/stopped")[0] == 0, STALL)
        runs = self._check_tcp()
        if not runs:
            raise Failed("no run of TCP came to its end")
        return out, into, len(runs)
