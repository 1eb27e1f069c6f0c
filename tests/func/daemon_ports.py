#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon as it is built, with uplinks that need no device: daemon_ports.py VQLIFTD VQLIFT.

That the daemon does as told is shown with a fake library (tests/unit/daemon_life.py, which this
borrows from); here the library is the real one, and what counts is that both fit.
"""

import contextlib
import json
import os
import pathlib
import signal
import socket
import struct
import sys
import time
import unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "unit"), str(TESTS / "vm")]
import daemon_life  # noqa: E402
from harness import front_end  # noqa: E402

ROUNDS, PORTS = 40, 64
GET_FEATURES, SET_FEATURES = 1, 2


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

    def test_device(self):
        """A port whose rings a device serves, with an uplink and without."""
        for name, more in (("s", ["--uplink", "loopback"]), ("t", [])):
            done = self.add(name, "--device", "sim,mtu=2000", *more)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            with contextlib.closing(front_end.FrontEnd(self.folder / name)):
                port = self.result("port", "show", name)
                self.assertEqual((port["device"], port["device-driver"], port["device-state"]),
                                 ("sim", "sim", "running"))
                self.assertEqual([r["path"] for r in port["rings"]], ["direct"] * 2)
                for way in ("software", "relay", "direct", "auto"):
                    self.assertEqual(self.cli("port", "path", name, way).returncode, 0)
                    paths = {r["path"] for r in self.result("port", "show", name)["rings"]}
                    served = {"auto": "direct", "software": "software" if more else "held"}
                    self.assertEqual(paths, {served.get(way, way)})
                moves = self.result("port", "moves", name)
                self.assertEqual([m["to"] for m in moves[:2]], ["direct"] * 2)
                self.assertEqual(self.cli("port", "moves", name).returncode, 0)
            self.assertEqual(self.cli("port", "del", name).returncode, 0)
        for device, said in (("0000:ff:1f.7", "0000:ff:1f.7"), ("sim,no-such=1", "no-such"),
                             ("none", "'none', expected the address of a device")):
            done = self.add("x", "--device", device)
            self.assertEqual((done.returncode, done.stdout), (1, ""), device)
            self.assertIn(said, done.stderr)
        done = self.cli("port", "path", "a", "relay")
        self.assertIn("port a has no device", done.stderr)
        self.assertEqual(self.cli("port", "path", "a", "sideways").returncode, 1)

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

    def compat(self, name, *more):
        """The file that compat dump writes for a new port."""
        self.assertEqual(self.add(name, "--uplink", "net_null0", *more).returncode, 0)
        done = self.cli("compat", "dump", name)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.cli("port", "del", name).returncode, 0)
        path = self.folder / f"{name}.json"
        path.write_text(done.stdout)
        return path

    def check(self, source, target):
        done = self.cli("compat", "check", source, target)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout.splitlines()

    def test_timeline(self):
        self.assertEqual(self.result("port", "show", "a")["timeline"], [])
        for connection in range(1, 11):
            self.acknowledge("a", 1 << 5)       # MAC is not offered
            newest = self.result("port", "show", "a")["timeline"][0]
            self.assertEqual(newest["connection"], connection)
            self.assertIn("bit 5 (MAC) is not offered", newest["reason"])
        sessions = self.result("port", "show", "a")["timeline"]
        self.assertEqual([s["connection"] for s in sessions], list(range(10, 2, -1)))
        phases = sessions[0]["phases"]
        self.assertEqual([p["phase"] for p in phases],
                         ["connect", "negotiate", "first-packet", "log", "stop", "hand-over"])
        self.assertEqual([p["count"] for p in phases], [1, 1, 0, 0, 0, 0])
        self.assertIsNotNone(phases[0]["took-us"])
        self.assertIsNone(phases[1]["took-us"])
        done = self.cli("port", "show", "a", "--timeline")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.count("bit 5 (MAC) is not offered"), 8)
        self.assertIn("negotiate", done.stdout)
        self.assertNotIn("hand-over", done.stdout)
        for wrong in (["port", "list", "--timeline"], ["port", "show", "--timeline"]):
            self.assertEqual(self.cli(*wrong).returncode, 2)

    def test_profile(self):
        names = ["VERSION_1", "MRG_RXBUF", "CTRL_VQ", "MQ"]
        done = self.add("n", "--uplink", "loopback", "--queue-pairs", "2", "--features",
                        ",".join(names))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(set(self.result("port", "show", "n")["features-offered"]),
                         {*names, "LOG_ALL", "PROTOCOL_FEATURES"})
        for features, said in (("CSUM,NO_SUCH", "features[1]"), ("GUEST_UFO", "bit 10 (GUEST_UFO)"),
                               ("GUEST_TSO4", "bit 7 (GUEST_TSO4) needs"), ("all,CSUM", "all")):
            done = self.add("x", "--uplink", "loopback", "--features", features)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertIn(said, done.stderr)
        # What a port dumps is a profile that another port takes.
        features = self.result("compat", "dump", "n")["features"]
        done = self.add("m", "--uplink", "loopback", "--queue-pairs", "2", "--features",
                        ",".join(features))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.result("compat", "dump", "m")["features"], features)

    def test_compat(self):
        split = self.compat("s", "--features-off", "RING_PACKED")
        every, pairs = self.compat("e"), self.compat("p", "--queue-pairs", "4")
        host = self.folder / "host.json"
        host.write_text(self.cli("compat", "dump").stdout)
        self.assertEqual(self.check(split, every), (0, ["yes"]))
        self.assertEqual(self.check(every, every), (0, ["yes"]))
        self.assertEqual(self.check(pairs, host), (0, ["yes"]))
        self.assertEqual(self.check(every, split),
                         (1, ["no: features: bit 34 (RING_PACKED) is not offered"]))
        self.assertEqual(self.check(pairs, every),
                         (1, ["no: features: bit 22 (MQ) is not offered",
                              "no: queue-pairs: 4, expected at most 1"]))
        done = self.cli("-j", "compat", "check", every, split)
        self.assertEqual((done.returncode, json.loads(done.stdout)["may-move"]), (1, False))
        for wrong in (self.config, self.folder, self.folder / "none"):
            done = self.cli("compat", "check", every, wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertIn(str(wrong), done.stderr)

    def acknowledge(self, name, bits):
        """A front-end that takes a feature set; what the port has against it, or None."""
        with socket.socket(socket.AF_UNIX) as peer:
            peer.settimeout(daemon_life.DEADLINE)
            peer.connect(str(self.folder / name))
            peer.sendall(struct.pack("<IIIQIII", SET_FEATURES, 1, 8, bits, GET_FEATURES, 1, 0))
            with contextlib.suppress(ConnectionResetError):
                if peer.recv(20):
                    return None

        def refusal():
            reason = self.result("port", "show", name)["reason"]
            return reason if "SET_FEATURES" in reason else None

        return daemon_life.until(refusal, "a refusal")

    def test_same_words_from_the_daemon(self):
        """What compat check says against a move is what the front-end would hear."""
        every = self.result("compat", "dump", "a")["features"]
        bits = sum(1 << b for b in every.values())
        split = {n: b for n, b in every.items() if n != "RING_PACKED"}
        self.assertEqual(self.add("n", "--uplink", "loopback", "--queue-pairs", "2",
                                  "--features-off", "RING_PACKED").returncode, 0)
        self.assertIsNone(self.acknowledge("a", bits))
        self.assertIsNone(self.acknowledge("n", sum(1 << b for b in split.values())))
        files = []
        for name in ("a", "n"):
            files.append(self.folder / f"{name}.json")
            files[-1].write_text(self.cli("compat", "dump", name).stdout)
        code, lines = self.check(*files)
        self.assertEqual((code, len(lines)), (1, 1))
        reason = lines[0].removeprefix("no: features: ")
        self.assertIn(reason, self.acknowledge("n", bits))

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


class Turns(daemon_life.Daemon):
    """A standby takes over as many ports as there may be on a host."""

    def connect(self, n):
        """A front-end whose rings run; None while nobody is there to connect to."""
        try:
            return front_end.FrontEnd(self.folder / f"p{n}")
        except OSError:
            return None

    def connect_all(self, connections):
        return [connections.enter_context(daemon_life.until(lambda n=n: self.connect(n), "a port"))
                for n in range(PORTS)]

    def serving(self):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as peer:
            peer.connect(str(self.control))
            return struct.unpack("iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED,
                                                        12))[0]

    def test_many_ports(self):
        self.write(str([self.port(f"p{n}") for n in range(PORTS)]).replace("'", ""),
                   "  memory: 64\n  huge: no\n  standby: yes\n  log-level: debug\n")
        self.start()
        for round_, number in enumerate((signal.SIGKILL, signal.SIGTERM), 1):
            with contextlib.ExitStack() as connections:
                ends = self.connect_all(connections)
                daemon_life.until(lambda n=round_: self.log().count("is ready") > n, "a standby")
                active = self.serving()
                began = time.monotonic()
                os.kill(active, number)
                for end in ends:
                    self.assertEqual(end.socket.recv(1), b"")
                with contextlib.ExitStack() as again:
                    self.connect_all(again)
                    print(f"{number.name}: rings of {PORTS} ports run again after "
                          f"{(time.monotonic() - began) * 1000:.0f} ms", flush=True)
                    self.assertNotEqual(self.serving(), active)
                    states = {p["state"] for p in self.result("port", "list")}
                    self.assertEqual(states, {"running"})


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:],
                  testRunner=unittest.TextTestRunner(resultclass=daemon_life.Result))
