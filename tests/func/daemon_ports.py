#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon as it is built, with uplinks that need no device: daemon_ports.py VQLIFTD VQLIFT.

That the daemon does as told is shown with a fake library (tests/unit/daemon_life.py, which this
borrows from); here the library is the real one, and what counts is that both fit.
"""

import json
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "unit"))
import daemon_life  # noqa: E402

ROUNDS = 40


class Ports(daemon_life.Daemon):
    def setUp(self):
        super().setUp()
        self.write(f"[{self.port('a', ', queue-pairs: 2')}]", "  memory: 64\n  huge: no\n")
        self.start()

    def add(self, name, *more):
        return self.cli("port", "add", name, "--socket", f"{self.folder}/{name}", *more)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def test_what_is_shown(self):
        port = self.result("port", "show", "a")
        self.assertEqual((port["state"], port["queue-pairs"], port["origin"], port["uplink"]),
                         ("waiting", 2, "file", "loopback"))
        self.assertIn("VERSION_1", port["features-offered"])
        self.assertEqual(len(port["rings"]), 4)
        self.assertEqual([r["direction"] for r in port["rings"]], ["rx", "tx"] * 2)
        stats = self.result("stats", "a")
        self.assertEqual([r["index"] for r in stats[0]["rings"]], [0, 1, 2, 3])
        self.assertTrue({"packets", "bytes"} <= set(stats[0]["rings"][0]["counters"]))
        self.assertEqual([w["index"] for w in self.result("show", "workers")], [0])
        self.assertEqual([u["port"] for u in self.result("show", "uplinks")], ["a"])
        self.assertRegex(self.result("show", "version")["version"], r"^\d+\.\d+\.\d+$")
        for command in (["port", "list"], ["port", "show", "a"], ["stats"], ["stats", "a"],
                        ["show", "uplinks"], ["show", "workers"], ["show", "version"]):
            done = self.cli(*command)
            self.assertEqual((done.returncode, done.stderr), (0, ""), command)
            self.assertTrue(done.stdout)

    def test_keys_reach_the_port(self):
        done = self.add("n", "--uplink", "net_null0", "--features-off", "RING_PACKED,MRG_RXBUF",
                        "--queue-pairs", "3", "--socket-mode", "0600")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        port = self.result("port", "show", "n")
        offered = set(port["features-offered"])
        self.assertFalse(offered & {"RING_PACKED", "MRG_RXBUF"})
        self.assertTrue({"RING_PACKED", "MRG_RXBUF"} <=
                        set(self.result("port", "show", "a")["features-offered"]))
        self.assertEqual((port["queue-pairs"], port["uplink-device"]), (3, "net_null0"))
        self.assertEqual((self.folder / "n").stat().st_mode & 0o7777, 0o600)

    def test_client_role(self):
        self.assertEqual(self.add("c", "--uplink", "loopback", "--role", "client").returncode, 0)
        port = self.result("port", "show", "c")
        self.assertEqual((port["role"], port["state"]), ("client", "waiting"))
        self.assertFalse((self.folder / "c").exists())

    def test_refusals(self):
        for more, name in ((["--uplink", "no_such_driver"], "ENODEV"),
                           (["--uplink", "0000:ff:1f.7"], "ENODEV"),
                           (["--uplink", "loopback", "--socket-group", "no-such-group"],
                            "EINVAL")):
            done = self.add("x", *more)
            self.assertEqual((done.returncode, done.stdout), (1, ""), more)
            self.assertIn(f"({name})", done.stderr)
        done = self.cli("port", "add", "x", "--socket", f"{self.folder}/a", "--uplink", "loopback")
        self.assertIn("(EADDRINUSE)", done.stderr)
        self.assertIn("(EEXIST)", self.add("a", "--uplink", "loopback").stderr)
        self.assertIn("(ENOENT)", self.cli("port", "show", "x").stderr)
        self.assertEqual([p["name"] for p in self.result("port", "list")], ["a"])

    def test_nothing_is_left_behind(self):
        counts = []
        for _ in range(ROUNDS):
            self.assertEqual(self.add("n", "--uplink", "net_null0").returncode, 0)
            self.assertEqual(self.add("l", "--uplink", "loopback").returncode, 0)
            self.assertEqual(self.add("x", "--uplink", "no_such_driver").returncode, 1)
            self.assertEqual(self.cli("port", "del", "n").returncode, 0)
            self.assertEqual(self.cli("port", "del", "l").returncode, 0)
            counts.append(self.descriptors())
        # The connection of the last command may be there still when its client is gone.
        daemon_life.until(lambda: self.descriptors() <= min(counts[:5]),
                          f"a return to the first number of descriptors, {counts},")
        self.assertFalse((self.folder / "n").exists())

    def test_reload(self):
        before = self.result("port", "show", "a")
        self.write(f"[{self.port('a', ', queue-pairs: 2')}, {self.port('b')}]",
                   "  memory: 64\n  huge: no\n")
        self.assertIn("1 added, 0 deleted, 0 changed, 1 kept, 0 failed", self.reload())
        self.assertEqual(self.result("port", "show", "a"), before)
        self.write("[]", "  memory: 64\n  huge: no\n")
        self.assertIn("0 added, 2 deleted, 0 changed, 0 kept, 0 failed", self.reload())
        self.assertFalse((self.folder / "a").exists())

    def test_end(self):
        self.assertEqual((self.folder / "run/state").stat().st_mode & 0o7777, 0o700)
        self.assertTrue((self.folder / "a").is_socket())
        self.assertEqual(self.stop(self.process), 0)
        self.assertFalse((self.folder / "a").exists())
        self.assertFalse(self.control.exists())

    def test_requests_without_end(self):
        request = b'{"jsonrpc":"2.0","id":1,"method":"port.show","params":{"name":"a"}}\n'
        answers = self.ask(request * 500).splitlines()
        self.assertEqual(len(answers), 500)
        self.assertTrue(all("result" in json.loads(a) for a in answers))
        self.assertEqual(len(self.ask(b"[[{\xff\x00\n" * 500).splitlines()), 500)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:],
                  testRunner=unittest.TextTestRunner(resultclass=daemon_life.Result))
