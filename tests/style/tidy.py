# SPDX-License-Identifier: BSD-3-Clause
"""clang-tidy over every C file of the build, with the checks that .clang-tidy gives reasons for."""

import concurrent.futures
import json
import pathlib
import re
import shutil
import subprocess

import tree as t

JOBS = 2
CONFIG = ".clang-tidy"
FINDING = re.compile(r"^(/[^:\n]+):(\d+):\d+: (?:warning|error): (.*)$", re.MULTILINE)
FILE_SECONDS_MAX = 120


def tidy(tree, path):
    command = ["clang-tidy", "--quiet", "-p", str(tree.build), str(tree.root / path)]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False,
                              cwd=tree.root, timeout=FILE_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return None


def report_file(tree, path, done, seen, report):
    if done is None:
        report.bad(path, 1, f"clang-tidy took more than {FILE_SECONDS_MAX} s")
        return
    hits = FINDING.findall(done.stdout)
    for name, line, text in hits:
        inside = pathlib.Path(name).resolve()
        place = inside.relative_to(tree.root) if inside.is_relative_to(tree.root) else name
        if (place, line, text) not in seen:
            seen.add((place, line, text))
            report.bad(place, line, text)
    if done.returncode and not hits:
        report.bad(path, 1, f"clang-tidy failed: {(done.stderr or done.stdout).strip()[-400:]}")


def check(tree, report):
    paths, seen = sorted(tree.compile_commands()), set()
    report.look(len(paths))
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for path, done in zip(paths, pool.map(lambda p: tidy(tree, p), paths)):
            report_file(tree, path, done, seen, report)


def prepare(tree):
    """The sample gets the real configuration and a compile command for each of its C files."""
    shutil.copy(pathlib.Path(__file__).parents[2] / CONFIG, tree.root)
    commands = [{"directory": str(tree.build), "file": str(tree.root / f),
                 "command": f"gcc -std=gnu11 -I{tree.root} -c {tree.root / f}"}
                for f in tree.files(".c")]
    (tree.build / "compile_commands.json").write_text(json.dumps(commands))


SAMPLES = [
    t.Sample({"lib/a.c": "int f(int a);\nint f(int a)\n{\n        return a;\n}\n"}),
    t.Sample({"lib/a.c": "int f(int *a);\nint f(int *a)\n{\n        if (!a)\n"
              "                return *a;\n        return 0;\n}\n"}, "lib/a.c:5: Dereference"),
    t.Sample({"lib/a.h": "#define TWICE(a) a * 2\n", "lib/a.c": "#include \"lib/a.h\"\nint b;\n"},
             "lib/a.h:1: macro"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES, prepare)
