# SPDX-License-Identifier: BSD-3-Clause
"""C as clang-format would write it, with the tree's .clang-format; line length of the rest."""

import pathlib
import re
import shutil
import subprocess

import tree as t

BATCH = 40
LINE_MAX = 100
CONFIG = ".clang-format"


def clang_format(tree, paths):
    for i in range(0, len(paths), BATCH):
        yield subprocess.run(["clang-format", "--dry-run", "-Werror", "--style=file", "--",
                              *paths[i:i + BATCH]], cwd=tree.root, capture_output=True, text=True,
                             check=False)


def check(tree, report):
    paths = tree.files(".c", ".h")
    report.look(len(paths))
    for done in clang_format(tree, paths):
        hits = re.findall(r"^(?:\./)?(.*?):(\d+):\d+: error: code should be clang-formatted",
                          done.stderr, re.MULTILINE)
        for path, line in sorted(set(hits)):
            report.bad(path, int(line), "expected what clang-format -i writes")
        if done.returncode and not hits:
            report.bad(CONFIG, 1, f"clang-format failed: {done.stderr.strip()}")
    for path in tree.python_scripts() + tree.shell_scripts():
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if len(line) > LINE_MAX:
                report.bad(path, number, f"{len(line)} columns, expected at most {LINE_MAX}")


def copy_config(tree):
    """Samples are held to the real configuration."""
    shutil.copy(pathlib.Path(__file__).parents[2] / CONFIG, tree.root)


SAMPLES = [
    t.Sample({"a.c": "int f(int a)\n{\n        return a;\n}\n"}),
    t.Sample({"a.c": "int a;\nint f(int a)\n{\n    return a;\n}\n"}, "a.c:3: expected what clang"),
    t.Sample({"a.h": "int f( int a );\n"}, "a.h:1: expected what clang"),
    t.Sample({"a.py": "x = '" + "y" * 100 + "'\n"}, "a.py:1: 106 columns"),
]

if __name__ == "__main__":
    t.run(check, SAMPLES, copy_config)
