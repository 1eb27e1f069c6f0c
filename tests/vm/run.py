#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The vm suite: real guests, DPDK's front-end, the daemon.  Needs root, for namespaces."""
import argparse
import fnmatch
import os
import platform
import signal
import sys
from pathlib import Path

from harness.process import Failed
from harness.registry import CASES
from harness.report import Report
from harness.rig import Place, Rig
import cases  # noqa: F401  (fills CASES)

ROOT = Path(__file__).resolve().parents[2]


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("case", nargs="*", help="name or pattern; all of them without one")
    p.add_argument("--build", type=Path, default=ROOT / "build", help="the build folder")
    p.add_argument("--quick", action="store_true", help="a few cases that stand for the others")
    p.add_argument("--list", action="store_true", help="names of the cases")
    p.add_argument("--records", type=argparse.FileType("w"),
                   help="file for one JSON document a case")
    return p.parse_args()


def chosen(a):
    patterns = a.case or ["*"]
    unknown = [p for p in patterns if not fnmatch.filter([c.name for c in CASES], p)]
    if unknown:
        sys.exit(f"no such case: {', '.join(unknown)} (--list shows them)")
    return [c for c in CASES if any(fnmatch.fnmatch(c.name, p) for p in patterns)
            and (c.quick or not a.quick)]


def main():
    a = arguments()
    wanted = chosen(a)
    if a.list:
        print("\n".join(c.name for c in wanted))
        return 0
    if os.geteuid() != 0:
        sys.exit("the vm suite needs root: it makes network namespaces and taps")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    report = Report(a.build / "vm-logs", a.records)
    if platform.machine() != "x86_64":
        for case in wanted:
            report.record(case.name, "skipped", 0, f"guests are x86-64, not {platform.machine()}")
        return 0
    try:
        place = Place(a.build.resolve(), report.logs).prepare()
    except Failed as error:
        report.record("preparation", "failed", 0, str(error))
        return 1
    for case in wanted:
        with Rig(place, report) as rig, report.case(case.name, rig):
            case.run(rig.open())
    return report.failed != 0


if __name__ == "__main__":
    sys.exit(main())
