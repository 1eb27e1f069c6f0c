#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Two daemons and their keeper ("standby: yes"): daemon_standby.py VQLIFTD VQLIFT.

VQLIFTD is linked with the fake library, as in daemon_life.py, which this borrows from.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

import daemon_life
from daemon_life import DEADLINE, until


def alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


class Standby(daemon_life.Daemon):
    def setUp(self):
        super().setUp()
        self.ports = f"[{self.port('a')}]"

    def write(self, ports="[]", daemon=""):
        super().write(ports, "  standby: yes\n  log-level: debug\n" + daemon)

    def start(self, **environment):
        """Returns the daemon that serves."""
        env = {**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify"), **environment}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [daemon_life.VQLIFTD, "-c", str(self.config)], env=env, stderr=log)
        self.addCleanup(self.stop, self.process)
        return self.wait_serving()

    def wait_serving(self):
        """The number of the daemon that the keeper next says to serve."""
        while True:
            match = re.search(r"STATUS=Daemon (\d+) serves", self.notify.recv(4096).decode())
            if match:
                return int(match[1])

    def children(self):
        path = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return {int(pid) for pid in path.read_text().split()}

    def wait_standby(self, *others):
        """The number of the one that waits for its turn."""
        standby = until(lambda: self.children() - set(others), "a standby").pop()
        until(lambda: f"daemon {standby} is ready" in self.log(), "its start")
        return standby

    def names(self):
        return [p["name"] for p in self.result("port", "list")]

    def test_takes_over(self):
        self.write(self.ports)
        active = self.start()
        keeper = self.process.pid
        for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL):
            standby = self.wait_standby(active)
            self.assertEqual(self.names(), ["a"])
            os.kill(active, number)
            self.assertEqual(self.wait_serving(), standby)
            self.assertEqual(self.names(), ["a"])
            until(lambda gone=active: not alive(gone), "the end of the last one")
            active = standby
        self.assertEqual(self.process.pid, keeper)
        self.assertIsNone(self.process.poll())
        self.assertEqual(self.log().count("took over"), 4)

    def test_ends_with_its_daemons(self):
        self.write(self.ports)
        for number, code in ((signal.SIGTERM, 0), (signal.SIGINT, 0),
                             (signal.SIGKILL, -signal.SIGKILL)):
            active = self.start()
            both = {active, self.wait_standby(active)}
            self.assertEqual(self.stop(self.process, number), code)
            until(lambda pids=both: not any(map(alive, pids)), "the end of both")
            self.assertFalse(self.control.exists())

    def test_lost_standby_is_replaced(self):
        self.write(self.ports)
        active = self.start()
        first = self.wait_standby(active)
        os.kill(first, signal.SIGKILL)
        second = self.wait_standby(active, first)
        os.kill(active, signal.SIGKILL)
        self.assertEqual(self.wait_serving(), second)

    def test_reload(self):
        self.write(self.ports)
        active = self.start()
        standby = self.wait_standby(active)
        self.write(f"[{self.port('a')}, {self.port('b')}]")
        self.process.send_signal(signal.SIGHUP)
        until(lambda: sorted(self.names()) == ["a", "b"], "the new port")
        another = self.wait_standby(active, standby)
        os.kill(active, signal.SIGKILL)
        self.assertEqual(self.wait_serving(), another)
        self.assertEqual(sorted(self.names()), ["a", "b"])

    def test_broken_file_meanwhile(self):
        self.write(self.ports)
        active = self.start()
        standby = self.wait_standby(active)
        self.config.write_text("ports: [\n")
        os.kill(active, signal.SIGKILL)
        self.assertEqual(self.wait_serving(), standby)
        self.assertEqual(self.names(), ["a"])
        self.assertIn("is refused, going on with what it was earlier", self.log())

    def test_upgrade(self):
        self.write(self.ports)
        active = self.start()
        standby = self.wait_standby(active)
        self.process.send_signal(signal.SIGUSR2)
        successor = self.wait_serving()
        self.assertNotIn(successor, (active, standby))
        self.assertEqual(self.names(), ["a"])
        self.assertIsNone(self.process.poll())

    def test_hanging_daemon_is_replaced(self):
        self.write(self.ports)
        active = self.start(WATCHDOG_USEC="2000000")
        standby = self.wait_standby(active)
        os.kill(active, signal.SIGSTOP)
        self.assertEqual(self.wait_serving(), standby)
        self.assertIn(f"daemon {active} hangs", self.log())

    def test_gives_up(self):
        self.write(f"[{{name: b, socket: /b, uplink: 'fail:19'}}]")
        done = self.run_daemon()
        self.assertEqual(done.returncode, 1)
        self.assertIn("ports[0]: uplink fail:19 fails", done.stderr)
        self.assertIn("1 daemons in a row did not come to serve, giving up", done.stderr)
        self.write(self.ports)
        active = self.start()
        self.wait_standby(active)
        self.write(f"[{{name: b, socket: /b, uplink: 'fail:19'}}]")
        os.kill(active, signal.SIGKILL)
        self.assertEqual(self.process.wait(DEADLINE), 1)
        self.assertEqual(self.log().count("uplink fail:19 fails"), 3)
        self.assertIn("3 daemons in a row did not come to serve, giving up", self.log())

    def test_not_with_pci(self):
        self.write(self.ports, "  pci: [\"0000:03:00.0\"]\n")
        done = self.run_daemon("-t")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"{self.config}:4: daemon.standby: \"yes\", expected no where pci names "
                      "devices", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:],
                  testRunner=unittest.TextTestRunner(resultclass=daemon_life.Result))
