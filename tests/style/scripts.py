# SPDX-License-Identifier: BSD-3-Clause
"""Shell scripts without what shellcheck finds; Python that compiles without a warning."""

import os
import re
import subprocess
import sys

import tree as t

SEVERITY = "warning"


def check_shell(tree, path, report):
    done = subprocess.run(["shellcheck", "--format=gcc", f"--severity={SEVERITY}", "-x", path],
                          cwd=tree.root, capture_output=True, text=True, check=False)
    for m in re.finditer(r"^(.*?):(\d+):\d+: (.*)$", done.stdout, re.MULTILINE):
        report.bad(m.group(1), int(m.group(2)), m.group(3))
    if done.returncode > 1:
        report.bad(path, 1, f"shellcheck failed: {done.stderr.strip()}")
    if "set -" not in tree.text(path):
        report.bad(path, 1, "expected set -u or set -e (or both) near the top")


def check_python(tree, path, report):
    program = "import sys; compile(open(sys.argv[1]).read(), sys.argv[1], 'exec')"
    done = subprocess.run([sys.executable, "-W", "error", "-c", program, path], cwd=tree.root,
                          capture_output=True, text=True, check=False)
    if done.returncode:
        report.bad(path, 1, done.stderr.strip().splitlines()[-1])


def check(tree, report):
    shell, python = tree.shell_scripts(), tree.python_scripts()
    report.look(len(shell) + len(python))
    for path in shell:
        check_shell(tree, path, report)
    for path in python:
        check_python(tree, path, report)
    for path in shell + python:
        if tree.interpreter(path) and not os.access(tree.root / path, os.X_OK):
            report.bad(path, 1, "begins with #! but is not executable")


SAMPLES = [
    t.Sample({"a": "#!/bin/bash\nset -eu\necho \"$1\"\n", "b.py": "x = 1\n"}),
    t.Sample({"a": "#!/bin/bash\nset -eu\ncd /nowhere; x=$(ls) ; echo $[1]\n"}, "a:3: "),
    t.Sample({"a": "#!/bin/bash\ntrue\n"}, "expected set -u"),
    t.Sample({"b.py": "x = '\\d'\n"}, "b.py:1: "),
    t.Sample({"b.py": "x = (\n"}, "b.py:1: "),
]

if __name__ == "__main__":
    t.run(check, SAMPLES)
