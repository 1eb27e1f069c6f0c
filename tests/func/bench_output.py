# SPDX-License-Identifier: BSD-3-Clause
"""What vqlift-bench prints and writes, and how it takes wrong options."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

BENCH = ""
CELL_KEYS = {"mode": str, "direction": str, "ring": str, "packed": bool, "in_order": bool,
             "mergeable": bool, "layout": str, "size": int, "burst": int, "ring_size": int,
             "vqlift": float}
FEW = ("--rounds=3", "--ring-size=256", "--burst=32")
SVG = "{http://www.w3.org/2000/svg}"


def run(*args, **more):
    return subprocess.run([BENCH, *args], capture_output=True, text=True, timeout=300, check=False,
                          **more)


class Output(unittest.TestCase):
    def results(self, *args):
        done = run("--json", *FEW, *args)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def check_cell(self, cell, other="rte_vhost", ratio="ratio"):
        for key, kind in {**CELL_KEYS, other: float, ratio: float}.items():
            self.assertIsInstance(cell[key], kind, key)
        for name in ("vqlift", other):
            self.assertGreater(cell[name], 0)
            self.assertGreaterEqual(cell[name + "_spread"], 0)
            counts = [cell[f"{name}_{what}"] for what in ("batches", "disturbed", "moved")]
            self.assertEqual(sum(counts), 3)
        self.assertAlmostEqual(cell[ratio], cell[other] / cell["vqlift"], delta=0.01 * cell[ratio])

    def test_json(self):
        out = self.results("--size=64,1518", "--ring=packed,split-in-order", "--limit")
        cells = out["cells"]
        self.assertEqual(len(cells), 2 * 2 * (2 + 3))
        keys = {tuple(c[k] for k in CELL_KEYS if k != "vqlift") for c in cells}
        self.assertEqual(len(keys), len(cells))
        for cell in cells:
            self.check_cell(cell)
            self.assertGreater(cell["limit"], 0)
            self.assertAlmostEqual(cell["of_limit"], cell["vqlift"] / cell["limit"],
                                   delta=0.01 * cell["of_limit"])
        product = 1.0
        for cell in cells:
            product *= cell["ratio"]
        self.assertAlmostEqual(out["summary"]["geomean"], product ** (1 / len(cells)), delta=0.01)
        self.assertAlmostEqual(out["summary"]["min"], min(c["ratio"] for c in cells), delta=0.01)
        self.assertEqual(out["summary"]["cells"], len(cells))
        self.assertIn("librte_vhost", out["machine"]["rte_vhost"])

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "the guest needs a CPU of its own")
    def test_pair(self):
        out = self.results("--size=64", "--mode=pair", "--ring=packed", "--layout=one")
        self.assertEqual({c["mode"] for c in out["cells"]}, {"pair"})
        for cell in out["cells"]:
            self.check_cell(cell)
            self.assertGreater(cell["round_trip"], 0)
            self.assertIn(cell["placement"], ("near", "far"))

    def test_pair_on_one_cpu(self):
        one = min(os.sched_getaffinity(0))
        done = run("--mode=pair", *FEW, preexec_fn=lambda: os.sched_setaffinity(0, {one}))
        self.assertEqual(done.returncode, 2)
        self.assertIn("CPU of its own", done.stderr)

    def test_control(self):
        out = self.results("--size=64", "--control=baseline", "--ring=split", "--layout=one")
        for cell in out["cells"]:
            self.check_cell(cell, "control", "gain")
            self.assertNotIn("rte_vhost", cell)
        self.assertEqual(out["machine"]["control"], "baseline")
        self.assertIn("baseline: ", run("--control=list").stdout)

    def test_report(self):
        with tempfile.TemporaryDirectory(prefix="vqlift-bench-") as folder:
            done = run(*FEW, "--ring=packed", f"--report={folder}/perf")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("geometric mean", done.stdout)
            files = Path(folder, "perf")
            cells = json.loads((files / "results.json").read_text())["cells"]
            table = (files / "results.md").read_text().splitlines()
            self.assertEqual(sum(line.startswith("| alternate ") for line in table), len(cells))
            plots = sorted(p.name for p in files.glob("*.svg"))
            self.assertEqual(plots, ["alternate-dequeue-packed.svg",
                                     "alternate-enqueue-packed.svg"])
            for name in plots:
                self.check_plot(files / name)

    def check_plot(self, path):
        root = xml.parse(path).getroot()
        words = [t.text for t in root.iter(SVG + "text")]
        for word in ("vqlift", "rte_vhost", "64", "1518", "9000", "bytes of a packet"):
            self.assertIn(word, words)
        lines = [p.get("points").split() for p in root.iter(SVG + "polyline")]
        sizes = {len(line) for line in lines if len(line) > 2}
        self.assertTrue(sizes <= {7, 8} and len(sizes) == 1, sizes)
        for line in lines:
            xs = [float(p.split(",")[0]) for p in line]
            self.assertEqual(xs, sorted(xs))
        self.assertIn("prefers-color-scheme: dark", path.read_text())

    def test_fail_under(self):
        done = run(*FEW, "--size=64", "--ring=split", "--direction=enqueue", "--fail-under=1000")
        self.assertEqual(done.returncode, 1)
        self.assertIn("2 under 1000", done.stdout)

    def test_idle(self):
        done = run("idle", "--queues=4", "--turns=2", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        out = json.loads(done.stdout)
        self.assertEqual([r["ring"] for r in out["rings"]], ["split", "packed"])
        for ring in out["rings"]:
            self.assertGreater(ring["alone"], 0)
            self.assertGreater(ring["beside_idle"], 0)
            self.assertGreater(ring["bytes_per_idle_queue"], 256)

    def test_wrong_options(self):
        for args, expected in (
                (["--size=65"], "--size: '65', expected 64|128|"),
                (["--ring=Split"], "--ring: 'Split', expected split|"),
                (["--mode=both"], "--mode: 'both', expected alternate|pair"),
                (["--rounds=0"], "--rounds: '0', expected 1 to"),
                (["--fail-under=-1"], "--fail-under: '-1', expected a ratio"),
                (["--set=avx9"], "--set: 'avx9', expected "),
                (["--control=nothing"], "--control: 'nothing', expected one of"),
                (["--direction=enqueue", "--layout=chain"], "no cell of the table"),
                (["word"], "'word', expected no argument"),
                (["idle", "--queues=3"], "--queues: '3', expected an even number"),
                (["--rte-vhost-prefix=/nonexistent"], "no librte_vhost.so.* in /nonexistent"),
        ):
            done = run(*args)
            self.assertEqual((done.returncode, done.stdout), (2, ""), args)
            self.assertIn(expected, done.stderr)

    def test_prefix(self):
        with tempfile.TemporaryDirectory(prefix="vqlift-bench-") as folder:
            lib = Path(folder, "lib")
            lib.mkdir()
            (lib / "librte_vhost.so.99").touch()
            done = run(f"--rte-vhost-prefix={folder}")
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"found {lib}/librte_vhost.so.99, expected librte_vhost.so.",
                          done.stderr)

    def test_prefix_of_the_same_interface(self):
        cell = ("--size=64", "--ring=split", "--direction=dequeue", "--layout=one")
        used = self.results(*cell)["machine"]["rte_vhost"]
        with tempfile.TemporaryDirectory(prefix="vqlift-bench-") as folder:
            lib = Path(folder, "lib64")
            lib.mkdir()
            shutil.copy(used, lib)
            out = self.results(f"--rte-vhost-prefix={folder}", *cell)
            self.assertEqual(out["machine"]["rte_vhost"], str(lib / Path(used).name))


if __name__ == "__main__":
    BENCH = sys.argv.pop(1)
    unittest.main(verbosity=2)
