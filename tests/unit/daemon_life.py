#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The daemon as a process and the command line beside it: daemon_life.py VQLIFTD VQLIFT.

VQLIFTD is linked with the fake library, which logs what it is asked for.  Nothing is judged by
time; what does not happen at all fails after DEADLINE seconds.
"""

import contextlib
import grp
import json
import os
import pathlib
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

DEADLINE = 120
VQLIFTD, VQLIFT = (os.path.abspath(p) for p in sys.argv[1:3])


def until(condition, what):
    end = time.monotonic() + DEADLINE
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > end:
            raise AssertionError(f"{what} did not happen within {DEADLINE} s")
        time.sleep(0.02)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="vqlift-daemon-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.config = self.folder / "vqlift.yaml"
        self.control = self.folder / "run" / "control.sock"

    def write(self, ports="[]", daemon=""):
        self.config.write_text(f"daemon:\n  control: {self.control}\n"
                               f"  state-dir: {self.folder}/run/state\n{daemon}ports: {ports}\n")

    def port(self, name, more=""):
        return f"{{name: {name}, socket: {self.folder}/{name}, uplink: loopback{more}}}"

    def run_daemon(self, *arguments, config=True):
        more = ["-c", str(self.config)] if config else []
        return subprocess.run([VQLIFTD, *more, *arguments], capture_output=True, text=True,
                              check=False, timeout=DEADLINE)

    def cli(self, *arguments):
        return subprocess.run([VQLIFT, "-s", str(self.control), *arguments], capture_output=True,
                              text=True, check=False, timeout=DEADLINE)

    def result(self, *arguments):
        done = self.cli("-j", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


class CheckOnly(Folder):
    def test_right_file(self):
        self.write(f"[{self.port('a')}]")
        done = self.run_daemon("-t")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, f"{self.config}: right, with 1 port\n")
        self.assertFalse(self.control.exists())

    def test_wrong_file(self):
        self.config.write_text("ports:\n- name: a\n  socket: /a\n  uplink: loopback\n"
                               "- name: b\n  socket: /a\n  uplink: loopback\n"
                               "  queue-pairs: 300\n")
        done = self.run_daemon("-t")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"{self.config}:6: ports[1].socket: \"/a\", expected a value "
                         f"other than that of ports[0].socket\n"
                         f"{self.config}:8: ports[1].queue-pairs: 300, expected 1 to 128\n")

    def test_no_file(self):
        done = self.run_daemon("-t")
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, f"{self.config}: cannot be read: No such file or directory\n")
        self.assertEqual(self.run_daemon("-t", "-c", str(self.folder)).returncode, 1)

    def test_usage(self):
        for wrong in (["-x"], ["-f", "loud"], ["file"], ["-c"], ["--tset"]):
            done = self.run_daemon(*wrong, config=False)
            self.assertEqual(done.returncode, 2, wrong)
            self.assertIn("Try 'vqliftd --help'", done.stderr)
        done = self.run_daemon("--help", config=False)
        self.assertEqual(done.returncode, 0)
        self.assertIn("SIGHUP", done.stdout)
        done = self.run_daemon("--version", config=False)
        self.assertEqual((done.returncode, done.stdout), (0, "vqliftd 0.0.0-fake\n"))


class Daemon(Folder):
    """A daemon that runs, its log, and what it tells systemd."""

    def setUp(self):
        super().setUp()
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.notify.close)
        self.notify.settimeout(DEADLINE)
        self.notify.bind(str(self.folder / "notify"))
        self.log_path = self.folder / "log"
        self.process = None

    def start(self, **environment):
        env = {**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify"), **environment}
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen([VQLIFTD, "-c", str(self.config)], env=env, stderr=log)
        self.addCleanup(self.end_well, self.process)
        self.wait_notify("READY=1")

    def stop(self, process, sent=signal.SIGTERM):
        if process.returncode is None:
            process.send_signal(sent)
            process.wait(DEADLINE)
        return process.returncode

    def end_well(self, process):
        """Sanitizers tell of what they found by the exit status."""
        self.assertIn(self.stop(process), (0, -signal.SIGKILL), self.log())

    def wait_notify(self, line):
        while line not in self.notify.recv(4096).decode().split("\n"):
            pass

    def log(self):
        return self.log_path.read_text()

    def reload(self):
        before = len(self.log())
        self.process.send_signal(signal.SIGHUP)
        self.wait_notify("RELOADING=1")
        self.wait_notify("READY=1")
        return self.log()[before:]

    def ask(self, text):
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
            client.settimeout(DEADLINE)
            client.connect(str(self.control))
            client.sendall(text)
            client.shutdown(socket.SHUT_WR)
            return b"".join(iter(lambda: client.recv(65536), b""))


class Life(Daemon):
    def test_start_and_end(self):
        self.write(f"[{self.port('a')}]")
        for sent in (signal.SIGTERM, signal.SIGINT):
            self.start()
            self.assertEqual(self.control.stat().st_mode & 0o7777, 0o660)
            self.assertEqual(self.control.parent.stat().st_mode & 0o7777, 0o755)
            self.assertEqual(self.stop(self.process, sent), 0)
            self.wait_notify("STOPPING=1")
            self.assertFalse(self.control.exists())

    def test_limits_and_signals(self):
        self.write()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        self.start()
        self.assertEqual(resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE), (hard, hard))
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        ignored = int(status.split("SigIgn:")[1].split()[0], 16)
        self.assertTrue(ignored & 1 << signal.SIGPIPE - 1)

    def test_without_standard_streams(self):
        self.write(f"[{self.port('a')}]")
        process = subprocess.Popen(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", VQLIFTD, "-c",
                                    str(self.config)])
        self.addCleanup(self.stop, process)
        until(self.control.exists, "a control socket")
        until(lambda: self.cli("show", "version").returncode == 0, "an answer")
        # Nothing but the answer comes over the socket.
        self.assertEqual(self.ask(b'{"jsonrpc":"2.0","method":"version"}\n'), b"")
        for fd in range(3):
            self.assertEqual(os.readlink(f"/proc/{process.pid}/fd/{fd}"), "/dev/null")
        self.assertEqual(self.stop(process), 0)

    def test_second_daemon(self):
        self.write(f"[{self.port('a')}]")
        self.start()
        second = self.run_daemon()
        self.assertEqual(second.returncode, 1)
        self.assertIn(f"control socket {self.control}: another daemon listens there", second.stderr)
        self.assertNotIn("fake:", second.stderr)
        self.assertEqual(self.result("show", "version"), {"version": "0.0.0-fake"})

    def test_start_after_kill(self):
        self.write()
        for _ in range(3):
            self.start()
            self.assertEqual(self.result("port", "list"), [])
            self.assertEqual(self.stop(self.process, signal.SIGKILL), -signal.SIGKILL)
            self.assertTrue(self.control.is_socket())

    def test_failing_starts(self):
        cases = [
            (f"[{self.port('a')}, {{name: b, socket: /b, uplink: 'fail:19'}}]", "",
             f"{self.config}:4: ports[1]: uplink fail:19 fails"),
            ("[]", "  memory: 666\n", "packet memory: 666 MiB cannot be had"),
            ("[]", "  workers: 128\n", "daemon.workers: 128, expected at most "),
            ("[]", "  control-group: no-such-group-here\n",
             f"{self.config}:4: daemon.control-group: \"no-such-group-here\", expected a group"),
            ("[1]", "", f"{self.config}:4: ports[0]: 1, expected the keys of a port"),
        ]
        for ports, daemon, expected in cases:
            self.write(ports, daemon)
            done = self.run_daemon()
            self.assertEqual(done.returncode, 1, expected)
            self.assertIn(expected, done.stderr)
            self.assertFalse(self.control.exists())
        self.write()
        self.control.parent.mkdir(exist_ok=True)
        self.control.write_text("mine")
        self.assertIn("a file that is not a socket", self.run_daemon().stderr)
        self.assertEqual(self.control.read_text(), "mine")

    @unittest.skipIf(os.getuid() != 0, "only root may give a file to a group")
    def test_control_group(self):
        group = next(g for g in grp.getgrall() if g.gr_gid != 0)
        for text in (group.gr_name, str(group.gr_gid)):
            self.write(daemon=f"  control-group: {text}\n")
            self.start()
            self.assertEqual(self.control.stat().st_gid, group.gr_gid)
            self.stop(self.process)

    def test_watchdog(self):
        self.write()
        self.start(WATCHDOG_USEC="400000")
        for _ in range(3):
            self.wait_notify("WATCHDOG=1")

    def test_journal(self):
        self.write(f"[{self.port('a')}]")
        self.log_path.touch()
        st = self.log_path.stat()
        self.start(JOURNAL_STREAM=f"{st.st_dev}:{st.st_ino}")
        self.assertTrue(all(line.startswith("<6>") for line in self.log().splitlines()))
        self.stop(self.process)
        self.log_path.write_text("")
        self.start(JOURNAL_STREAM="1:1")
        self.assertRegex(self.log(), r"^\d\d:\d\d:\d\d\.\d{3} info    fake: added a\n")

    def test_log_level(self):
        self.write(f"[{self.port('a')}]", "  log-level: notice\n")
        self.start()
        self.assertEqual(self.log(), "")


class Reload(Daemon):
    def test_ports(self):
        self.write(f"[{self.port('a')}, {self.port('b')}, {self.port('c')}]")
        self.start()
        self.write(f"[{self.port('d')}, {self.port('b', ', queue-pairs: 2')}, {self.port('a')}]")
        log = self.reload()
        self.assertIn("reload: ports: 1 added, 1 deleted, 1 changed, 1 kept, 0 failed", log)
        self.assertNotIn(" a\n", log)
        ports = {p["name"]: p for p in self.result("port", "list")}
        self.assertEqual(set(ports), {"a", "b", "d"})
        self.assertEqual(ports["b"]["queue-pairs"], 2)
        self.assertIn("0 added, 0 deleted, 0 changed, 3 kept, 0 failed", self.reload())

    def test_bad_file_changes_nothing(self):
        self.write(f"[{self.port('a')}]")
        self.start()
        self.config.write_text("ports: [\n")
        log = self.reload()
        self.assertIn(f"{self.config}:2: column 1: while parsing a flow node", log)
        self.assertIn("is refused, nothing is changed", log)
        self.config.unlink()
        self.assertIn("cannot be read", self.reload())
        self.assertEqual([p["name"] for p in self.result("port", "list")], ["a"])

    def test_what_cannot_be_added(self):
        self.write()
        self.start()
        self.write(f"[{{name: x, socket: /x, uplink: 'fail:16'}}, {self.port('a')}]")
        log = self.reload()
        self.assertIn("reload: port x is not added: uplink fail:16 fails", log)
        self.assertIn("1 added, 0 deleted, 0 changed, 0 kept, 1 failed", log)

    def test_keys_of_the_daemon(self):
        self.write()
        self.start()
        self.write(daemon="  memory: 512\n")
        self.assertIn(f"{self.config}:4: daemon.memory: takes effect at the next start",
                      self.reload())
        self.write()
        self.assertNotIn("next start", self.reload())

    def test_reload_while_clients_talk(self):
        self.write(f"[{self.port('a')}]")
        self.start()
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as client:
            client.settimeout(DEADLINE)
            client.connect(str(self.control))
            client.sendall(b'{"jsonrpc":"2.0",')
            self.reload()
            client.sendall(b'"id":1,"method":"version"}\n')
            self.assertIn(b"0.0.0-fake", client.recv(4096))


class CommandLine(Daemon):
    def setUp(self):
        super().setUp()
        self.write(f"[{self.port('vm1', ', queue-pairs: 2')}]")
        self.start()

    def test_json_is_the_result(self):
        for command, method, params in (
                (["port", "list"], "port.list", {}),
                (["port", "show", "vm1"], "port.show", {"name": "vm1"}),
                (["port", "moves", "vm1"], "port.moves", {"name": "vm1"}),
                (["port", "path", "vm1", "relay"], "port.path", {"name": "vm1", "path": "relay"}),
                (["stats"], "stats.get", {}),
                (["stats", "vm1"], "stats.get", {"name": "vm1"}),
                (["show", "version"], "version", {}),
                (["show", "uplinks"], "uplink.list", {}),
                (["show", "workers"], "worker.list", {})):
            request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = json.loads(self.ask(json.dumps(request).encode()))
            self.assertEqual(self.result(*command), answer["result"], command)

    def test_add_and_delete(self):
        done = self.cli("port", "add", "vm2", "--socket", f"{self.folder}/vm2", "--uplink",
                        "net_tap0,iface=t0", "--queue-pairs", "4", "--features-off",
                        "CSUM,RING_PACKED", "--role", "client", "--mtu", "auto")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "vm2\n", ""))
        port = self.result("port", "show", "vm2")
        self.assertEqual((port["queue-pairs"], port["role"], port["uplink"], port["origin"]),
                         (4, "client", "net_tap0,iface=t0", "control"))
        self.assertEqual(self.cli("port", "del", "vm2").stdout, "vm2\n")
        done = self.cli("port", "del", "vm2")
        self.assertEqual((done.returncode, done.stderr), (1, "vqlift: no port vm2 (ENOENT)\n"))

    def test_refusals(self):
        add = ["port", "add", "x", "--socket", "/x", "--uplink", "loopback"]
        for more, expected in (
                (["--queue-pairs", "300"], "queue-pairs: 300, expected 1 to 128"),
                (["--mtu", "big"],
                 'mtu: "big", expected an integer, 68 to 65535 or "auto"'),
                (["--features-off", "CSUM,", "--features-off", "CSUN"],
                 'features-off[1]: "", expected the name of a virtio feature')):
            done = self.cli(*add, *more)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertEqual(done.stderr, f"vqlift: {expected}\n")

    def test_usage(self):
        for wrong in ([], ["prt"], ["port"], ["port", "ad", "x"], ["port", "add"],
                      ["port", "show", "a", "b"], ["--mtu", "1", "port", "list"],
                      ["port", "add", "x", "--mtu", "1", "--mtu", "2"], ["--watch", "0", "stats"],
                      ["--watch", "1", "port", "list"], ["-x"], ["port", "list", "--sockt", "/x"]):
            done = self.cli(*wrong)
            self.assertEqual((done.returncode, done.stdout), (2, ""), wrong)
            self.assertIn("Try 'vqlift help'", done.stderr)
        self.assertIn('did you mean "port show"?', self.cli("port", "shwo").stderr)

    def test_tables(self):
        lines = self.cli("port", "list").stdout.splitlines()
        self.assertEqual(lines[0].split(), "NAME STATE ROLE PAIRS RINGS LINK UPLINK SOCKET".split())
        self.assertEqual(lines[1].split(), ["vm1", "waiting", "server", "2", "0", "yes", "loopback",
                                            f"{self.folder}/vm1"])
        self.assertEqual(lines[0].index("SOCKET"), lines[1].index(str(self.folder)))
        self.assertEqual(self.cli("port", "show").stdout.splitlines(), lines)
        # Four rings exist, and the fake has set up two.
        lines = self.cli("port", "show", "vm1").stdout.splitlines()
        self.assertEqual(sum("stopped" in line for line in lines), 2)
        lines = [line.split() for line in self.cli("stats", "vm1").stdout.splitlines()]
        self.assertEqual(lines[1], ["packets", "200", "400", "0", "100", "200", "300"])
        self.assertEqual(len(self.cli("show", "uplinks").stdout.splitlines()), 2)
        self.assertEqual(len(self.cli("show", "workers").stdout.splitlines()), 2)
        self.assertIn("vqliftd 0.0.0-fake\n", self.cli("show", "version").stdout)

    def test_watch(self):
        with subprocess.Popen([VQLIFT, "-s", str(self.control), "stats", "--watch", "1"],
                              stdout=subprocess.PIPE, text=True) as watch:
            lines = [watch.stdout.readline().split() for _ in range(4)]
            self.assertEqual(lines[0], ["vm1", "to", "guest/s", "from", "guest/s"])
            self.assertEqual(lines[1], ["packets", "0", "0"])
            self.stop(self.process)
            watch.stdout.read()
            self.assertEqual(watch.wait(DEADLINE), 1)

    def test_daemon_is_away(self):
        self.stop(self.process)
        done = self.cli("port", "list")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertEqual(done.stderr, f"vqlift: control socket {self.control}: No such file or "
                         "directory (is vqliftd running?)\n")
        self.control.mkdir()
        self.assertIn("Connection refused", self.cli("port", "list").stderr)

    def test_strange_daemons(self):
        self.stop(self.process)
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as server:
            server.bind(str(self.control))
            server.listen()
            for answer, expected in ((b"", "reset"), (b"hello\n", "not one of vqliftd"),
                                     (b"{}\n", "not one of vqliftd"),
                                     (b'{"error":{"message":"a\\u001bb"}}\n', "vqlift: a?b\n")):
                with subprocess.Popen([VQLIFT, "-s", str(self.control), "port", "list"],
                                      stderr=subprocess.PIPE, text=True) as cli:
                    client = server.accept()[0]
                    client.recv(4096)
                    client.sendall(answer)
                    client.close()
                    self.assertIn(expected, cli.stderr.read())
                    self.assertEqual(cli.wait(DEADLINE), 1)


class Result(unittest.TextTestResult):
    """Tells of each test as cmocka does, which is what tests/run counts."""

    def startTest(self, test):
        print(f"[ RUN      ] {test.id()}", flush=True)
        super().startTest(test)

    def addSuccess(self, test):
        print(f"[       OK ] {test.id()}", flush=True)
        super().addSuccess(test)

    def addSkip(self, test, reason):
        print(f"{reason}\n[  SKIPPED ] {test.id()}", flush=True)
        super().addSkip(test, reason)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:],
                  testRunner=unittest.TextTestRunner(resultclass=Result))
