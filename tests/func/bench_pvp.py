#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`vqlift-bench pvp` with real programs on both ends: bench_pvp.py VQLIFT_BENCH VQLIFTD.

The numbers are not judged, the machine has other things to do; what counts is that packets go both
ways, what is printed, and that nothing is left behind.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SECONDS_MAX = 120


class Pvp(unittest.TestCase):
    bench = vqliftd = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="vqpvp-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def start(self, *arguments):
        return subprocess.Popen([self.bench, "pvp", "--vqliftd", self.vqliftd, *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "TMPDIR": str(self.folder)})

    def finish(self, process):
        out, err = process.communicate(timeout=SECONDS_MAX)
        self.assertEqual(list(self.folder.iterdir()), [], "left behind")
        self.assertEqual(self.children(), [], "still running")
        return process.returncode, out, err

    def children(self):
        """Programs that know our folder."""
        found = []
        for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            try:
                if str(self.folder).encode() in command.read_bytes():
                    found.append(command.parent.name)
            except OSError:     # it ended just now
                pass
        return found

    def run_cell(self, *arguments):
        code, out, err = self.finish(self.start(
            "--size", "64", "--rounds", "1", "--seconds", "0.1", "--json", *arguments))
        self.assertEqual((code, err), (0, ""))
        return json.loads(out)["cells"]

    def test_packets_go_both_ways(self):
        cells = self.run_cell("--ring", "split", "--mergeable", "on", "--size", "1518")
        self.assertEqual([(c["ring"], c["mergeable"], c["size"]) for c in cells],
                         [("split", True, 64), ("split", True, 1518)])
        for cell in cells:
            for sample in (cell["rounds"][0][name] for name in ("vqlift", "rte_vhost")):
                self.assertGreater(sample["mpps"], 0)
                self.assertEqual(len(sample["round-trip-ns"]), 2)

    def test_each_kind_of_ring(self):
        cells = self.run_cell("--ring", "packed-in-order", "--ring", "split-in-order",
                              "--mergeable", "off")
        self.assertEqual([c["ring"] for c in cells], ["split-in-order", "packed-in-order"])

    def test_a_signal_ends_all(self):
        process = self.start("--seconds", "60")
        deadline = time.monotonic() + SECONDS_MAX
        while len(self.children()) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        code, _, err = self.finish(process)
        self.assertEqual(code, 2)
        self.assertIn("ended by a signal", err)

    def test_what_is_missing_is_named(self):
        code, _, err = self.finish(self.start("--testpmd", "/nowhere/testpmd"))
        self.assertEqual(code, 2)
        self.assertIn("/nowhere/testpmd: No such file or directory", err)
        self.assertIn("dpdk-dev", err)

    def test_arguments(self):
        for arguments, said in (
                (["--size", "63"], "--size 63, expected a number of bytes, 64 to 1518"),
                (["--ring", "x"], "--ring x, expected split, "),
                (["--mergeable", "x"], "--mergeable x, expected on or off"),
                (["--rounds", "0"], "--rounds 0, expected a number, 1 to 1000"),
                (["--cpus", "1,1"], "--cpus 1,1, expected two different CPUs"),
                (["--seconds", "nan"], "--seconds nan, expected a number, 0.1 to 60"),
                (["word"], "word, expected an option")):
            code, out, err = self.finish(self.start(*arguments))
            self.assertEqual((code, out), (2, ""), arguments)
            self.assertIn(said, err)
        code, out, err = self.finish(self.start("--help"))
        self.assertEqual((code, err), (0, ""))
        self.assertIn("usage: vqlift-bench pvp", out)


if __name__ == "__main__":
    Pvp.bench, Pvp.vqliftd = sys.argv[1:3]
    if not shutil.which("dpdk-testpmd"):
        print("dpdk-testpmd is not installed")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
