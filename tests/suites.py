# SPDX-License-Identifier: BSD-3-Clause
"""Runs suites, each in its own way, and adds up what they say.  tests/run is its front."""
import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/vm"))
from harness.hugepages import reserve  # noqa: E402
from harness.report import Skip  # noqa: E402

JOBS = 2
HUGE_MB = 128                   # for what maps hugepages in unit, func and bench
# " 3/12 vqlift:unit / ring    OK    0.02s", as meson prints it.
MESON_LINE = re.compile(r"\s*\d+/\d+ (?:\S+ / )?(\S+)\s+([A-Z]{2,})\s+([\d.]+)s")
CMOCKA_LINE = re.compile(r"\[\s+(OK|SKIPPED|RUN)\s+\] (\S+)")
GOOD, SKIPPED = ("OK", "EXPECTEDFAIL"), ("SKIP",)
SHOWN_LINES = 40


class Tally:
    def __init__(self):
        self.counts = {}
        self.failures, self.skips = [], []

    def add(self, suite, outcome, count=1):
        self.counts.setdefault(suite, Counter())[outcome] += count

    def fail(self, suite, name, text=""):
        self.add(suite, "failed")
        self.failures.append((f"{suite} {name}", text))

    def skip(self, suite, name, reason):
        self.add(suite, "skipped")
        self.skips.append((f"{suite} {name}", reason))

    def total(self, outcome):
        return sum(c[outcome] for c in self.counts.values())


def show(status, seconds, what):
    print(f"{status:8}{seconds:6.1f} s  {what}", flush=True)


def tail(text):
    lines = text.rstrip().splitlines()
    return "\n".join(lines[-SHOWN_LINES:])


def listed(build, suite):
    """The tests of a suite: {name: whether it shares the machine with others}."""
    out = subprocess.run(["meson", "introspect", "--tests", build], check=True,
                         capture_output=True, text=True).stdout
    return {t["name"]: t["is_parallel"] for t in json.loads(out)
            if any(s.split(":")[-1] == suite for s in t["suite"])}


def stream(command, suite, env=None):
    """Run it, show a line for each test as it ends, and return the lines that are no tests."""
    rest = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env=env, cwd=ROOT) as process:
        for line in process.stdout:
            match = MESON_LINE.match(line)
            if match:
                status = ("passed" if match[2] in GOOD else
                          "skipped" if match[2] in SKIPPED else "failed")
                show(status, float(match[3]), f"{suite} {match[1]}")
            else:
                rest.append(line.rstrip())
    return process.returncode, rest


def count_cmocka(tally, suite, name, output):
    """Count each test of a cmocka program that did not fail; false if it is none.  The reason of
    a skip is the line that was printed before it."""
    before, seen = "", 0
    for line in output.splitlines():
        match = CMOCKA_LINE.match(line)
        if not match:
            before = line.strip() or before
        elif match[1] == "RUN":
            before = ""
        elif match[1] == "OK":
            tally.add(suite, "passed")
            seen += 1
        else:
            tally.skip(suite, f"{name}: {match[2]}", before or "no reason given")
            seen += 1
    return seen > 0


def read_log(tally, suite, path, expected):
    """Add up meson's JSON log; every test of the list must be in it."""
    results = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    missing = set(expected)
    for r in results:
        name = r["name"].split(" / ")[-1]
        missing.discard(name)
        output = r.get("stdout", "") + r.get("stderr", "")
        if r["result"] in SKIPPED:
            tally.skip(suite, name, (output.strip().splitlines() or ["no reason given"])[-1])
        elif r["result"] in GOOD:
            if not count_cmocka(tally, suite, name, r.get("stdout", "")):
                tally.add(suite, "passed")
        else:
            tally.fail(suite, name, f"{r['result']}\n{tail(output)}")
    for name in sorted(missing):
        tally.fail(suite, name, "did not run")
    if not expected:
        tally.fail(suite, "suite", "has no tests")


def run_meson(tally, build, suite, quick=False, label=None):
    tests = listed(build, suite)
    # What needs the machine for itself takes long: clang-tidy, cppcheck, a build by each compiler.
    names = [n for n, shares in tests.items() if shares or not quick]
    base = f"run-{suite}"
    command = ["meson", "test", "-C", build, "--no-rebuild", "--suite", suite, "--num-processes",
               str(JOBS), "--logbase", base, *(names if quick else [])]
    if names:
        stream(command, label or suite)
    read_log(tally, label or suite, build / "meson-logs" / f"{base}.json", names)


def run_sanitizers(tally, suite):
    """The same tests under each sanitizer, built and run by tests/sanitize."""
    for kind, build in (("address", ROOT / "build-asan"), ("thread", ROOT / "build-tsan")):
        label = f"{suite}-{kind}"
        print(f"building for {label}", flush=True)
        code, rest = stream([ROOT / "tests/sanitize", kind, suite], label)
        logs = [Path(line.partition(": ")[2]) for line in rest if line.startswith("json: ")]
        if not logs:
            tally.fail(label, "build", tail("\n".join(rest)))
            continue
        before = tally.total("failed")
        read_log(tally, label, logs[0], listed(build, suite))
        if code and tally.total("failed") == before:
            tally.fail(label, "tests/sanitize", tail("\n".join(rest)))


def run_fuzz(tally):
    """The fuzzers have a build of their own: clang's, with its sanitizers."""
    build = ROOT / "build-fuzz"
    print("building for fuzz", flush=True)
    commands = [["ninja", "-C", build]]
    if not (build / "build.ninja").exists():
        commands.insert(0, ["meson", "setup", build, ROOT, "-Dfuzz=true", "-Db_lundef=false",
                            "-Db_sanitize=address,undefined"])
    for command in commands:
        done = subprocess.run(command, env={**os.environ, "CC": "clang"}, text=True, cwd=ROOT,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            tally.fail("fuzz", "build", tail(done.stdout))
            return
    run_meson(tally, build, "fuzz")


def wait_for_end(command):
    """Its exit code.  If we are stopped it may still clean up."""
    with subprocess.Popen(command) as process:
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            process.wait()
            raise


def run_vm(tally, build, quick):
    with tempfile.NamedTemporaryFile("r", suffix=".records") as records:
        command = ["python3", ROOT / "tests/vm/run.py", "--build", build, "--records",
                   records.name, *(["--quick"] if quick else [])]
        code = wait_for_end(command)
        results = [json.loads(line) for line in records]
    for r in results:
        if r["status"] == "failed":
            tally.fail("vm", r["name"], tail(r["text"]))
        elif r["status"] == "skipped":
            tally.skip("vm", r["name"], r["text"])
        else:
            tally.add("vm", "passed")
    if not results or (code and not any(r["status"] == "failed" for r in results)):
        tally.fail("vm", "run.py", f"ended with {code} after {len(results)} cases")


def run(tally, suite, build, quick):
    if suite == "vm":
        run_vm(tally, build, quick)
    elif suite == "fuzz":
        run_fuzz(tally)
    elif suite == "style":
        run_meson(tally, build, suite, quick)
    else:
        with ExitStack() as stack:
            try:
                stack.enter_context(reserve(HUGE_MB))
            except Skip as reason:
                print(f"{suite}: {reason}", flush=True)
            run_meson(tally, build, suite)
            if not quick and suite != "bench":
                run_sanitizers(tally, suite)


def summarize(tally, seconds):
    print(f"\n{'':16}passed  failed  skipped  seconds")
    for suite, c in tally.counts.items():
        spent = f"{seconds[suite]:9.0f}" if suite in seconds else ""
        print(f"{suite:16}{c['passed']:6}{c['failed']:8}{c['skipped']:9}{spent}")
    for title, items in (("skipped", tally.skips), ("failed", tally.failures)):
        if items:
            print(f"\n{title}:")
        for name, text in items:
            print(f"  {name}" + (": " + text.replace("\n", "\n    ") if text else ""))
    print(f"\n{tally.total('passed')} passed, {tally.total('failed')} failed,"
          f" {tally.total('skipped')} skipped", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", type=Path, required=True)
    p.add_argument("--quick", action="store_true")
    p.add_argument("suite", nargs="+")
    a = p.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    tally, seconds = Tally(), {}
    for suite in a.suite:
        start = time.monotonic()
        run(tally, suite, a.build, a.quick)
        seconds[suite] = time.monotonic() - start
    summarize(tally, seconds)
    return tally.total("failed") != 0


if __name__ == "__main__":
    sys.exit(main())
